"""The 30 programs of PolyBench 4.2.1 (Pouchet and Yuki), spelled in tc.

Each module has the programs of one of its categories.  Numbers are float64, those of `nussinov` and
`floyd_warshall` int32, as there.  Inputs are our own, so that results are well conditioned: matrices that are
factorised are dominated by their diagonal.  What PolyBench overwrites is here an input and a result, for
everyone.  The parameters of a family are macros of its C; spellings are in `benchmarks.spellings.polybench`.

Sizes are those of the LARGE data sets; MEDIUM where a call would take seconds on two processors: adi,
heat-3d, floyd-warshall, nussinov, seidel-2d.  gramschmidt has its two sizes exchanged, since a matrix with
more columns than rows has no such factors.
"""

from benchmarks.workloads.polybench.blas import GEMM_LIKE
from benchmarks.workloads.polybench.kernels import KERNELS
from benchmarks.workloads.polybench.medley import MEDLEY
from benchmarks.workloads.polybench.mining import MINING
from benchmarks.workloads.polybench.solvers import SOLVERS
from benchmarks.workloads.polybench.stencils import STENCILS

POLYBENCH = (*GEMM_LIKE, *KERNELS, *SOLVERS, *MINING, *MEDLEY, *STENCILS)

__all__ = ["POLYBENCH"]
