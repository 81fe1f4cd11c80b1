"""What a search has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tc.options import Options
from tc.tuned.pairs import Paired
from tc.tuned.target import cost_text
from tc.tuner.trials import Trial


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    `best` are the options found, `kernel` is the kernel with them; they are those of `default` where no
    candidate beat them.  `trials` has every candidate in the order in which they were measured.  `paired` are
    the last rounds of the winner and the default, in a fresh process.  `interrupted` says that Ctrl-C ended
    it, `records` where the measurements are.
    """

    kernel: Any = field(repr=False)
    best: Options
    default: Options
    trials: tuple[Trial, ...] = field(repr=False)
    paired: Paired = field(repr=False)
    seconds: float
    sizes: dict[str, int]
    genes: dict[str, tuple[Any, ...]] = field(repr=False)
    records: Path | None = None
    interrupted: bool = False

    @property
    def ranking(self) -> tuple[Trial, ...]:
        """The trials, the fastest first, what failed at the end."""
        return tuple(sorted(self.trials, key=lambda t: (t.cost is None, t.cost or 0.0)))

    @property
    def gain(self) -> float:
        """The default's time over that of the best: 1.0 where nothing is faster."""
        if self.best == self.default:
            return 1.0
        if self.paired.challenger:
            return 1.0 / self.paired.ratio
        costs = {t.options: t.cost for t in self.trials}
        return (costs.get(self.default) or 0.0) / (costs.get(self.best) or 1.0) or 1.0

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The candidates that crashed, hung, were wrong, took too much memory, or did not compile."""
        return tuple(t for t in self.trials if t.status not in ("ok", "pruned"))

    def prediction(self, trial: Trial) -> str:
        """What the model predicted for a trial, as text behind its time; empty where it did not."""
        if trial.predicted is None:
            return ""
        return f", predicted {cost_text(trial.predicted, self.kernel.backend_object.cost_unit)}"

    def summary(self) -> str:
        """A few lines for people."""
        ran = sum(t.status != "pruned" and t.options != self.default for t in self.trials)
        default = next((t for t in self.trials if t.options == self.default), None)
        lines = [f"{ran} candidates in {self.seconds:.1f} s, {len(self.failed)} failed"]
        if default is None or default.seconds is None:
            lines.append(f"the default was not measured{': ' + default.problem if default else ''}")
        else:
            lines.append(f"default: {1e6 * default.seconds:.1f} us{self.prediction(default)}")
        if self.best == self.default:
            lines.append("best: the default options")
        else:
            low, high = self.paired.interval if self.paired.challenger else (0.0, 0.0)
            sure = f", by rounds {1 / high:.2f} to {1 / low:.2f}" if low else ", not confirmed"
            lines.append(f"best: {self.best!r}, {self.gain:.2f} times as fast{sure}")
        if self.interrupted:
            lines.append("interrupted; what was measured is kept")
        return "\n".join(lines)
