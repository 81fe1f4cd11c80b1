"""Options: what a tuner may turn.  Plain data: JSON round trip, printed as the Python that makes it.

Names follow the report (section 6 and appendix A.4).  A backend states which options it uses
(`Backend.options_used`); one that it would ignore is refused rather than dropped silently.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from tc.errors import ArgumentError, did_you_mean


def _bad(name: str, value: object, expected: str) -> ArgumentError:
    return ArgumentError(f"option {name}={value!r} is not valid", code="TC0511", help=f"{name} is {expected}")


_SWITCHES = (
    *("pack", "parallel", "prefetch", "nontemporal"),
    *("use_shared_memory", "use_private_memory", "unroll_copy_shared", "atomics"),
)
# What says how loops get to threads, and where data live.
MAPPED = (
    *("fusion", "intra_tile_fusion", "tile", "threads", "blocks", "unroll", "unroll_copy_shared"),
    *("use_shared_memory", "use_private_memory", "max_shared_memory", "atomics"),
)


def _plain(value: object) -> object:
    """Numbers of other libraries (NumPy's) as Python's, which JSON knows; all else as it is."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _permutation(value: object) -> tuple[int, ...]:
    """The numbers of loops, each once."""
    loops: tuple[object, ...] = ()
    if isinstance(value, (list, tuple)):
        loops = tuple(map(_plain, cast("Sequence[object]", value)))
    counted = tuple(n for n in loops if isinstance(n, int) and not isinstance(n, bool) and n >= 0)
    if not loops or len(set(counted)) < len(loops):
        raise _bad("order", cast("object", value), "a tuple of numbers of loops, each once, or None")
    return counted


def _is_architecture(value: object) -> bool:
    """Whether it is written as CUDA's are."""
    return isinstance(value, str) and re.fullmatch(r"sm_[1-9]\d{1,2}[af]?", value) is not None


def _facts(value: object) -> tuple[tuple[str, float], ...]:
    """Names and numbers in a fixed order, from a mapping or, as JSON has them, from pairs."""
    given = value
    if isinstance(value, Mapping):
        value = tuple(cast("Mapping[object, object]", value).items())
    pairs = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    facts: dict[str, float] = {}
    for pair in pairs:
        name, number = cast("Sequence[object]", pair) if _is_pair(pair) else (None, None)
        number = _plain(number)
        counted = isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < math.inf
        if isinstance(name, str) and counted:
            facts[name] = cast("float", number)
    if not facts or len(facts) < len(pairs):
        raise _bad("machine", given, "the name of a GPU, a mapping of names to numbers from 0 up or None")
    return tuple(sorted(facts.items()))


def _is_pair(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(cast("Sequence[object]", value)) == 2


@dataclass(frozen=True, slots=True)
class Options:
    """How a kernel is built; `None` leaves the choice to the backend's model of the machine.

    `strict`: round half-precision values after every statement instead of keeping them in float32.
    `fast_math`: allow value-changing floating-point rewrites (docs/numerics.md says which, with bounds).
    `fusion`: which loops statements share, `"max"`, `"preserve3coincident"`, `"min"`, or a function that
    says of each `tc.poly.fusion.fusion.Proposal`, which is legal, whether it pays (kernels made with one are
    not kept on disk).
    `isa`: the instruction set of CPU code, `"avx512"`, `"avx2"`, `"sse4.2"` or `"neon"`, or of CUDA code, for
    example `"sm_90"`.
    `machine`: what the model should believe of the machine or the GPU instead of what it found, by the names
    that `kernel.inspect("choice")` begins with: `{"cores": 4, "l2": 1 << 21}`, `{"dram": 4800}`; or the name
    of a GPU whose rates and memories it should believe there, `"A100"`, `"H100"` or `"H200"`.
    `tile`, `register_tile`: points of the loops of each nest, outermost first, in a cache tile and in a
    register tile (missing ones are chosen; a register tile has at most 256 vectors); the loops are those of
    `kernel.inspect("loops")`, where indices that always go together are one.  `vector`: the number of the
    loop that runs in lanes; -1: the loops of the reductions.  `unroll`: iterations of an innermost loop in a
    row, of more than are worth it fewer (on a CPU of those of reductions, at most 64; on a GPU also all
    iterations of loops around it, as long as they are no more in all, and at most 512 updates of a thread).
    `pack`: whether operands are copied to be contiguous (True: all that are read more than once).  `order`:
    the numbers of loops in the order in which they go over cache tiles, outermost first (those that are left
    out follow); threads share the outermost ones.  `parallel`: whether threads are used.  `prefetch`:
    whether rows that come next are asked for early (True: however near they are).  `nontemporal`: whether
    results that are only written are stored past the caches (True: however small they are).
    `threads`, `blocks`: on a GPU, threads of a block along each of its dimensions, the fastest first (at most
    1024 in all), and blocks along each tiled loop, outermost first; fewer run where there is less to do.
    There `tile` has the points of the loops that a block runs at a time (rounded up to a multiple of the
    threads along that loop), and then those of the loops of reductions for which operands are in shared
    memory at a time.  With any of the three the loops are those of the program, each index one.
    With `intra_tile_fusion` `"min"` statements that share the tiled loops run one after the other over the
    points of a tile, instead of one after the other at each point; with `"preserve3coincident"` those that
    keep three loops without dependences, or all they have, still share them.
    `mapping`: `"identity"` runs all on one thread, in the order of the source, for validation.
    `use_shared_memory`, `use_private_memory`: whether what the threads of a block read again is copied to
    shared memory, of at most `max_shared_memory` bytes, and whether threads keep results in registers.
    `unroll_copy_shared`: whether the copies of a thread are made without a loop. `atomics`: whether blocks
    that share a long reduction update its results in memory, in whatever order they end (then floating
    results may differ from call to call), instead of leaving parts to a second kernel.
    `autoschedule`: the Halide backend's scheduler (one of `"Mullapudi2016"`, `"Adams2019"`, `"Li2018"`).
    """

    strict: bool = False
    fast_math: bool = False
    fusion: Literal["max", "preserve3coincident", "min"] | Callable[[Any], bool] | None = None
    intra_tile_fusion: Literal["max", "preserve3coincident", "min"] | None = None
    isa: str | None = None
    tile: tuple[int, ...] | None = None
    register_tile: tuple[int, ...] | None = None
    vector: int | None = None
    unroll: int | None = None
    pack: bool | None = None
    order: tuple[int, ...] | None = None
    parallel: bool | None = None
    prefetch: bool | None = None
    nontemporal: bool | None = None
    threads: tuple[int, ...] | None = None
    blocks: tuple[int, ...] | None = None
    use_shared_memory: bool | None = None
    use_private_memory: bool | None = None
    max_shared_memory: int | None = None
    unroll_copy_shared: bool | None = None
    atomics: bool | None = None
    mapping: Literal["identity"] | None = None
    machine: str | Mapping[str, float] | tuple[tuple[str, float], ...] | None = None
    autoschedule: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_shared_memory", "vector", "unroll"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        for name in ("strict", "fast_math"):
            if not isinstance(getattr(self, name), bool):
                raise _bad(name, getattr(self, name), "True or False")
        for name in _SWITCHES:
            if getattr(self, name) is not None and not isinstance(getattr(self, name), bool):
                raise _bad(name, getattr(self, name), "True, False or None")
        if not callable(self.fusion) and self.fusion not in (None, "max", "preserve3coincident", "min"):
            raise _bad("fusion", self.fusion, "'max', 'preserve3coincident', 'min', a function or None")
        if self.intra_tile_fusion not in (None, "max", "preserve3coincident", "min"):
            wanted = "'max', 'preserve3coincident', 'min' or None"
            raise _bad("intra_tile_fusion", self.intra_tile_fusion, wanted)
        if self.machine is not None and not (isinstance(self.machine, str) and self.machine):
            object.__setattr__(self, "machine", _facts(self.machine))
        if self.isa not in (None, "avx512", "avx2", "sse4.2", "neon") and not _is_architecture(self.isa):
            raise _bad("isa", self.isa, "'avx512', 'avx2', 'sse4.2', 'neon', one such as 'sm_90' or None")
        for name in ("tile", "register_tile", "threads", "blocks"):
            value = cast("object", getattr(self, name))
            if value is None:
                continue
            listed = isinstance(value, (list, tuple))
            counts = tuple(map(_plain, cast("Sequence[object]", value))) if listed else ()
            if not counts or not all(map(_is_count, counts)):
                raise _bad(name, value, "a tuple of positive integers or None")
            object.__setattr__(self, name, counts)  # JSON and command lines have lists
        if self.order is not None:
            object.__setattr__(self, "order", _permutation(self.order))
        for name, most in (("threads", 1024), ("blocks", (1 << 31) - 1)):
            product = math.prod(getattr(self, name) or ())
            if product > most:
                raise _bad(name, getattr(self, name), f"at most {most} in all, these are {product}")
        if self.max_shared_memory is not None and not _is_count(self.max_shared_memory):
            raise _bad("max_shared_memory", self.max_shared_memory, "a positive number of bytes or None")
        if self.mapping not in (None, "identity"):
            raise _bad("mapping", self.mapping, "'identity' or None")
        for name in MAPPED if self.mapping == "identity" else ():
            if getattr(self, name) is not None:
                raise _bad(name, getattr(self, name), "None, as mapping='identity' leaves nothing to map")
        vector = cast("object", self.vector)
        if vector is not None and (isinstance(vector, bool) or not isinstance(vector, int) or vector < -1):
            raise _bad("vector", self.vector, "the number of a loop, -1 or None")
        if self.unroll is not None and not _is_count(self.unroll):
            raise _bad("unroll", self.unroll, "a positive integer or None")
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

    @property
    def facts(self) -> tuple[tuple[str, float], ...]:
        """What `machine` says, by name."""
        named = isinstance(self.machine, str)
        return () if named else cast("tuple[tuple[str, float], ...]", self.machine or ())

    @property
    def preset(self) -> str:
        """The GPU that `machine` names; empty if it names none."""
        return self.machine if isinstance(self.machine, str) else ""

    def check_loops(self, most: int) -> None:
        """Raises ArgumentError (TC0511) where tiles, lanes or the order name more loops than any statement of
        a program has."""
        for name in ("tile", "register_tile"):
            value: tuple[int, ...] = getattr(self, name) or ()
            if len(value) > most:
                loops = f"{most} loop{'s' * (most != 1)}"
                raise _bad(name, value, f"for {loops} at most, as no statement here has more, or None")
        if self.vector is not None and self.vector >= most:
            raise _bad(
                "vector", self.vector, f"a number below {most}, as no statement here has more loops, or None"
            )
        if self.order is not None and max(self.order) >= most:
            raise _bad(
                "order", self.order, f"of numbers below {most}, as no statement here has more, or None"
            )

    def to_json(self) -> str:
        """Canonical JSON of the options that differ from their defaults; a function has none."""
        if callable(self.fusion):
            raise ArgumentError(
                "fusion is a function, which JSON cannot hold",
                code="TC0511",
                help="name a strategy, 'max', 'preserve3coincident' or 'min'",
            )
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
        if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(
                f"options are of type {type(values).__name__}, not a mapping",
                code="TC0511",
                help='pass tc.Options(…) or {"name": value, …}',
            )
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


# ---- dynamic sizes: those of which one kernel serves all values

# Names of sizes, or names with typical values (None: the first call decides).
Dynamic = Iterable[str] | Mapping[str, int] | Mapping[str, int | None] | bool

_LEAST = 64  # a first call with one row is no reason to make a kernel for single rows


def read_dynamic(dynamic: Dynamic, known: Iterable[str], entry: str) -> dict[str, int | None]:
    """{size: typical value, None where the first call decides}, in the order given.

    Raises ArgumentError: TC0511 for what names no sizes or is no value of one, TC0513 for a name that the
    def does not have.
    """
    sizes = tuple(known)
    if dynamic is False:
        return {}
    help = "dynamic is a tuple of sizes, or a mapping from sizes to typical values"
    if isinstance(dynamic, str):
        raise ArgumentError(
            f"dynamic={dynamic!r} is not valid", code="TC0511", help=f"dynamic=({dynamic!r},)"
        )
    values = cast("Mapping[object, object]", dynamic) if isinstance(dynamic, Mapping) else None
    try:
        names = list(cast("Iterable[object]", dynamic))
    except TypeError:
        raise ArgumentError(f"dynamic={dynamic!r} is not valid", code="TC0511", help=help) from None
    out: dict[str, int | None] = {}
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"dynamic={dynamic!r} is not valid", code="TC0511", help=help)
        if name not in sizes:
            raise ArgumentError(
                f"{entry} has no size '{name}'",
                code="TC0513",
                help=did_you_mean(name, sizes) or f"it has {', '.join(sizes) or 'none'}",
            )
        value = None if values is None else values[name]
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ArgumentError(
                f"{entry}: {name} = {value!r} is not a typical size",
                code="TC0511",
                help="typical sizes are integers from 1 on",
            )
        out[name] = value
    return out


def typical_size(size: int) -> int:
    """What a dynamic size is taken to be about, after a first call with this value."""
    return max(_LEAST, 1 << max(0, size - 1).bit_length())
