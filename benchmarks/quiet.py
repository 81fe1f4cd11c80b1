"""How much of the processors others used meanwhile: threads that wait for each other suffer most from it."""

from __future__ import annotations

import os
import resource
from pathlib import Path


class Others:
    """Takes the counters when made; `share()` is what was used since by processes that are not of this run.

    Only children that have ended count as of this run, so ask after they have.
    """

    def __init__(self) -> None:
        self.before = _counters()

    def share(self) -> float | None:
        """The part of all processors' time, 0 to 1; None where Linux's counters cannot be read."""
        after = _counters()
        if self.before is None or after is None or after[0] <= self.before[0]:
            return None
        whole, busy, ours = (a - b for a, b in zip(after, self.before, strict=True))
        return min(1.0, max(0.0, (busy - ours) / whole))


def _counters() -> tuple[float, float, float] | None:
    """Seconds that there were, that were used, and that this process and its children used."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal; guests are part of user.
    ticks = [int(n) / os.sysconf("SC_CLK_TCK") for n in first[1:9]]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ours = sum(u.ru_utime + u.ru_stime for u in used)
    return sum(ticks), sum(ticks) - ticks[3] - ticks[4], ours
