"""Traps of islpy 2026.2: each is still there, and its helper of tc.poly.context avoids it."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import islpy as isl
import pytest

from fuzz.endurance import COMPILES_BOUND
from tc.poly.context import Callbacks, identifier, isl_context, maps_of, sets_of
from tests.dependencies import children


def test_an_id_is_not_the_one_of_its_name() -> None:
    """`isl.Id(name)` carries a pointer: two spaces that print the same differ."""
    with isl_context() as ctx:
        read = isl.Set.read_from_str(ctx, "{ x[i] }")
        theirs, ours = (read.set_tuple_id(i) for i in (isl.Id("x", context=ctx), identifier("x")))
        assert str(theirs) == str(ours) == str(read)
        assert not theirs.is_equal(read)
        assert ours.is_equal(read)


@pytest.mark.parametrize("text", ["{ }", "{ a[i]; b[j] }"], ids=["none", "two"])
def test_unions_of_none_and_of_several(text: str) -> None:
    with isl_context() as ctx:
        union = isl.UnionSet.read_from_str(ctx, text)
        relation = isl.UnionMap.from_domain(union)
        for convert in (union.as_set, relation.as_map):
            with pytest.raises(isl.Error, match="exactly one space"):
                convert()
        names = {s.get_tuple_name() for s in sets_of(union)}
        assert names == {m.get_tuple_name(isl.dim_type.in_) for m in maps_of(relation)}
        assert names == ({"a", "b"} if "a" in text else set())


RAISES = """
import islpy as isl

def fail(node, build):
    raise ValueError("from the callback")

ctx = isl.Context()
schedule = isl.Schedule.from_domain(isl.UnionSet.read_from_str(ctx, "{ x[i] : 0 <= i < 4 }"))
build, handle = isl.AstBuild.from_context(isl.Set.read_from_str(ctx, "{ : }")).set_at_each_domain(fail)
try:
    build.node_from_schedule(schedule)
except ValueError:
    print("mended")
"""


def test_what_a_callback_raises_is_lost() -> None:
    """And the process at times, too.  tests/poly/test_schedule.py: what `Callbacks` wraps is raised."""
    assert "mended" not in children.run(RAISES).stdout


def test_nobody_keeps_a_callback() -> None:
    """The object that calls it does not; the handle beside it, which few would keep, does."""

    def build(keep: Callable[[Any], Any]) -> tuple[Any, weakref.ref[Any]]:
        def callback(node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
            return node

        made = isl.AstBuild.from_context(isl.Set.read_from_str(ctx, "{ : }"))
        return keep(made.set_at_each_domain(callback)), weakref.ref(callback)

    calls = Callbacks()
    with isl_context() as ctx:
        (theirs, lost), (ours, kept) = build(lambda pair: pair[0]), build(calls.keep)
        gc.collect()
        assert lost() is None and kept() is not None
        assert isinstance(theirs, isl.AstBuild) and isinstance(ours, isl.AstBuild)


def test_errors_cannot_be_compared() -> None:
    """`tc.poly.context` mends it in place, so it is seen where nothing imports that."""
    script = """
import islpy as isl
try:
    isl.Set.read_from_str(isl.Context(), "{ [i : }")
except isl.Error as error:
    try:
        error == error
    except TypeError:
        print("still")
"""
    assert children.output(script) == "still\n"


LEAKS = f"""{children.LEAKED}
import islpy as isl
ctx = isl.Context()
a = isl.Set.read_from_str(ctx, "{{ [i] : 0 <= i < 4 }}")
for call in (lambda k: a.coalesce(), lambda k: a.union(a), lambda k: a == a):
    print(leaked(call, 1000))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the heap is glibc's")
def test_arguments_that_isl_takes_leak() -> None:
    """32 bytes each: what `fuzz.endurance` lets a process grow by in 1000 compiles."""
    one, two, none = map(float, children.output(LEAKS).split())
    assert 30 < one < 34 and 60 < two < 68 and none < 2
    assert COMPILES_BOUND == 24 << 20
