"""Options: what a tuner may turn.  Plain data: JSON round trip, printed as the Python that makes it.

Names follow the report (section 6 and appendix A.4).  A backend states which options it uses
(`Backend.options_used`); one that it would ignore is refused rather than dropped silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from tc.errors import ArgumentError, did_you_mean


def _bad(name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(f"option {name}={value!r} is not valid", code="TC0511", help=f"{name} is {expected}")


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is built; `None` leaves the choice to the backend's model of the machine.

    `strict`: round half-precision values after every statement instead of keeping them in float32.
    `fast_math`: allow value-changing floating-point rewrites (each backend documents its error bound).
    `autoschedule`: the Halide backend's scheduler (one of `"Mullapudi2016"`, `"Adams2019"`, `"Li2018"`).
    """

    strict: bool = False
    fast_math: bool = False
    autoschedule: str | None = None

    def __post_init__(self) -> None:
        for name in ("strict", "fast_math"):
            if not isinstance(getattr(self, name), bool):
                raise _bad(name, getattr(self, name), "True or False")
        if self.autoschedule not in (None, "Mullapudi2016", "Adams2019", "Li2018"):
            raise _bad("autoschedule", self.autoschedule, "'Mullapudi2016', 'Adams2019', 'Li2018' or None")

    def __repr__(self) -> str:
        return f"tc.Options({', '.join(f'{k}={v!r}' for k, v in self.changed().items())})"

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        default = Options()
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != getattr(default, f.name)
        }

    def to_json(self) -> str:
        """Canonical JSON of the options that differ from their defaults."""
        return json.dumps(self.changed(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The inverse of `to_json`; unknown names are refused with a suggestion."""
        try:
            values = json.loads(text)
        except json.JSONDecodeError as e:
            raise ArgumentError(
                f"not JSON: {e}", code="TC0511", help='options are {"name": value, …}'
            ) from None
        if not isinstance(values, dict):
            raise ArgumentError("not a JSON object", code="TC0511", help='options are {"name": value, …}')
        return cls.from_mapping(cast("dict[str, Any]", values))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Options:
        """Options from names and values, for example those of a command line."""
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise ArgumentError(
                    f"there is no option '{name}'",
                    code="TC0511",
                    help=did_you_mean(name, known) or "options are " + ", ".join(sorted(known)),
                )
        return cls(**values)

    def replace(self, **values: Any) -> Options:
        """A copy with some options changed."""
        return replace(self, **values)
