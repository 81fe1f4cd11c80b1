"""Programs that go step by step: recurrent networks, scans, time steps, factorisations, dynamic programming,
prefixes; and scatters and transforms.  Their spellings are in `benchmarks.spellings.loops`."""

from benchmarks.workloads.loops.factors import FACTORS
from benchmarks.workloads.loops.prefixes import PREFIXES
from benchmarks.workloads.loops.recurrent import RECURRENT
from benchmarks.workloads.loops.scatters import SCATTERS
from benchmarks.workloads.loops.tables import TABLES
from benchmarks.workloads.loops.time_steps import TIME_STEPS
from benchmarks.workloads.loops.transforms import TRANSFORMS

LOOPS = (*RECURRENT, *TIME_STEPS, *FACTORS, *TABLES, *PREFIXES, *SCATTERS, *TRANSFORMS)

__all__ = ["LOOPS"]
