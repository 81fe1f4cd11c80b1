"""One isl context behind one lock, and helpers for pitfalls of islpy.

isl objects live only while a thread is inside `isl_context()`, or inside a Scop that the same compile
owns; what outlives a compile is text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import islpy as isl

from tc.errors import Error, InternalError
from tc.support import locks

_depth = 0
_context: isl.Context | None = None
_given: dict[str, int] = {}  # options that are not at their defaults now

# islpy's exceptions inherit the comparison of isl objects, which raises TypeError.  They are causes of our
# errors, and tools that inspect those (such as hypothesis, to distinguish failures) compare them.
for _name in ("__eq__", "__ne__"):
    setattr(isl.Error, _name, getattr(object, _name))

# A pass takes some 10**4 operations of isl, with hundreds of statements 10**6, in a second.  One that takes
# this many would run for minutes or forever, and could not be interrupted.
MAX_OPERATIONS = 10**8


def _abandoned() -> None:
    """Reset after a fork: the thread that used the context does not exist in the child."""
    global _context, _depth, _given
    _context, _depth, _given = None, 0, {}


_LOCK = locks.lock(_abandoned)

# Every option that isl's code generation and scheduling read, with the default here.  Options are sticky.
OPTIONS: dict[str, int] = {
    "ast_build_allow_else": 1,
    "ast_build_allow_or": 1,
    "ast_build_atomic_upper_bound": 1,
    "ast_build_detect_min_max": 1,
    "ast_build_exploit_nested_bounds": 1,
    "ast_build_group_coscheduled": 0,
    "ast_build_prefer_pdiv": 1,
    "ast_build_scale_strides": 1,
    "ast_build_separation_bounds": 0,
    "schedule_max_coefficient": -1,
    "schedule_max_constant_term": -1,
    "schedule_maximize_band_depth": 0,
    "schedule_maximize_coincidence": 0,
    "schedule_outer_coincidence": 0,
    "schedule_separate_components": 0,
    "schedule_serialize_sccs": 1,
    "schedule_split_scaled": 0,
    "schedule_treat_coalescing": 1,
    "schedule_whole_component": 0,
    "tile_scale_tile_loops": 0,
    "tile_shift_point_loops": 1,
}


@contextmanager
def isl_context(**options: int) -> Generator[isl.Context]:
    """The context, with the lock held and every option at its default or as given.

    Nested uses restore what the outer use had set.  Raises InternalError (TC0906) where the outermost body
    takes more than `MAX_OPERATIONS`.
    """
    global _context, _depth
    with _LOCK:
        if _context is None:
            _context = isl.Context()
            _set(_context, OPTIONS)
            # Failures become islpy exceptions; isl itself prints nothing (ISL_ON_ERROR_CONTINUE).
            _context.set_on_error(1)
        ctx = _context
        unknown = options.keys() - OPTIONS.keys()
        if unknown:
            raise InternalError(f"unknown isl options {sorted(unknown)}")
        depth = _depth
        before = _given
        try:
            _depth = depth + 1
            if not depth:
                ctx.set_max_operations(MAX_OPERATIONS)
            _change(ctx, options)
            yield ctx
        except Exception as error:
            if not isinstance(error, Error) and exhausted():
                message = f"isl gave up after {MAX_OPERATIONS} operations"
                raise InternalError(message, code="TC0906") from error
            raise
        finally:
            _depth = depth
            if not depth:
                ctx.reset_operations()
            _change(ctx, before)


def _change(ctx: isl.Context, options: dict[str, int]) -> None:
    """Go from the options that are set to these, and to defaults for all others."""
    global _given
    if options != _given:
        _set(ctx, {name: options.get(name, OPTIONS[name]) for name in {**_given, **options}})
        _given = options


def _set(ctx: isl.Context, options: dict[str, int]) -> None:
    for name, value in options.items():
        getattr(ctx, f"set_{name}")(value)


class GaveUp(Exception):
    """isl took more operations than it was given."""


@contextmanager
def given_up_after(operations: int) -> Generator[None]:
    """Limits isl to `operations` operations in the body; raises GaveUp if that is not enough, and then
    results of the body are invalid.  The count for operations outside restarts.  Use it inside
    `isl_context()`."""
    assert _context is not None and _depth > 0
    _context.reset_operations()
    _context.set_max_operations(operations)
    try:
        yield
    except isl.Error as error:
        if exhausted():
            raise GaveUp from error
        raise
    finally:
        _context.reset_operations()
        _context.set_max_operations(MAX_OPERATIONS)


def exhausted() -> bool:
    """Whether isl has reached the limit of operations; a failure then says nothing about its operands, and
    its message may name another cause."""
    if _context is None:
        return False
    try:
        isl.Val.int_from_si(_context, 1)
    except isl.Error:
        return True
    return False


def identifier(name: str) -> isl.Id:
    """An id equal to the one isl's parser makes (`isl.Id(name)` carries a Python pointer and differs)."""
    with isl_context() as ctx:
        return isl.Id.read_from_str(ctx, name)


_KEYWORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "implies",
        "exists",
        "exist",
        "all",
        "forall",
        "infty",
        "infinity",
        "nan",
        "min",
        "max",
        "rat",
        "true",
        "false",
        "ceild",
        "floord",
        "mod",
        "ceil",
        "floor",
        "lex_lt",
        "lex_le",
        "lex_gt",
        "lex_ge",
        "domain",
        "context",
        "schedule",
        "sequence",
        "set",
        "band",
        "filter",
        "mark",
        "guard",
        "leaf",
        "extension",
        "expansion",
        "contraction",
        "permutable",
        "coincident",
        "options",
        "child",
    ]
)


class Names:
    """Unique names that isl's reader takes as identifiers, and the way back."""

    def __init__(self) -> None:
        self._to: dict[tuple[str, str], str] = {}
        self._back: dict[str, str] = {}

    def safe(self, kind: str, name: str) -> str:
        """The isl name of `name`, a `kind` of thing ("size", "buffer", "stage")."""
        key = (kind, name)
        if key not in self._to:
            text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
            if not text or text[0].isdigit() or text.lower() in _KEYWORDS:
                text = f"{kind[0]}_{text}"
            unique, count = text, 0
            while unique in self._back:
                count += 1
                unique = f"{text}_{count}"
            self._to[key] = unique
            self._back[unique] = name
        return self._to[key]

    def original(self, safe: str) -> str:
        """The name that `safe` stands for."""
        return self._back[safe]


R = TypeVar("R")


class Callbacks:
    """Keeps isl callbacks alive and their exceptions: islpy would drop both, and crash.

    `wrap` makes a callback that records an exception and returns a harmless value; after the isl call,
    `check` raises the first one recorded.
    """

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._errors: list[BaseException] = []

    def wrap(self, call: Callable[..., R], fallback: Callable[..., R]) -> Callable[..., R]:
        def guarded(*args: Any) -> R:
            if not self._errors:
                try:
                    return call(*args)
                except BaseException as error:
                    self._errors.append(error)
            return fallback(*args)

        return guarded

    def keep(self, result: tuple[Any, Any] | Any) -> Any:
        """The object of a `set_…` call that takes a callback; its handle stays alive with `self`."""
        if isinstance(result, tuple):
            value, handle = cast("tuple[Any, Any]", result)
            self._kept.append(handle)
            return value
        return result

    def check(self) -> None:
        if self._errors:
            raise self._errors[0]


def union_set(ctx: isl.Context, sets: Iterable[isl.Set]) -> isl.UnionSet:
    """The union of sets of any spaces; none gives the empty union."""
    total = isl.UnionSet.empty_ctx(ctx)
    for s in sets:
        total = total.union(isl.UnionSet.from_set(s))
    return total


def union_map(ctx: isl.Context, maps: Iterable[isl.Map]) -> isl.UnionMap:
    """The union of maps of any spaces; none gives the empty union."""
    total = isl.UnionMap.empty_ctx(ctx)
    for m in maps:
        total = total.union(isl.UnionMap.from_map(m))
    return total


def sets_of(union: isl.UnionSet) -> list[isl.Set]:
    """The sets of a union (`as_set` fails on none and on several)."""
    parts = union.get_set_list()
    return [parts.get_at(i) for i in range(parts.n_set())]


def maps_of(union: isl.UnionMap) -> list[isl.Map]:
    """The maps of a union (`as_map` fails on none and on several)."""
    parts = union.get_map_list()
    return [parts.get_at(i) for i in range(parts.n_map())]


def set_list(ctx: isl.Context, sets: Iterable[isl.UnionSet]) -> isl.UnionSetList:
    """A list of filters, for `insert_sequence`."""
    items = list(sets)
    out = isl.UnionSetList.alloc(ctx, len(items))
    for s in items:
        out = out.add(s)
    return out
