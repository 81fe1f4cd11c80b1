"""Texts that are hardly ever programs: out come `tc.Error`s, soon, or now and then a kernel."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable

from hypothesis import strategies as st

import tc
from benchmarks.workloads import CASES

SECONDS = 10.0  # for one text, far above what any takes on a loaded machine
_TOKEN = re.compile(r"\w+|\s+|[+\-*/%<>=!&|?:]+|.", re.DOTALL)
SEEDS = tuple(dict.fromkeys(case.workload(tiny=True).source for case in CASES))
_PLAIN = """
def where in exists float int half double bool uint8 inout f x A B i j N M exp fmax min select float2
0 1 1e99 0x 1. ( ) { } [ ] , : -> = += +=! max= *=! + - * / % ? && || ! < <= == != # // /* */
"""
_WORDS = (*_PLAIN.split(), '"', "'", "\\", "\n", "\t", ";", "@", "é", "\0")


class Slow(AssertionError):
    """A text took longer than it may."""


def soups() -> st.SearchStrategy[str]:
    """Tokens in any order."""
    return st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join)


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A program with tokens lost, doubled, exchanged, replaced or nested."""
    tokens = _TOKEN.findall(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, max(0, len(tokens) - 1)))
        to = min(len(tokens), at + draw(st.integers(1, 6)))
        match draw(
            st.sampled_from(["lose", "double", "exchange", "replace", "insert", "end", "nest", "text"])
        ):
            case "lose":
                del tokens[at:to]
            case "double":
                tokens[at:at] = tokens[at:to]
            case "exchange":
                other = draw(st.integers(0, max(0, len(tokens) - 1)))
                if tokens:
                    tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at : at + 1] = [draw(st.sampled_from(_WORDS))]
            case "insert":
                tokens.insert(at, draw(st.sampled_from(_WORDS)))
            case "end":
                del tokens[at:]
            case "nest":
                times = draw(st.sampled_from([2, 10, 100, 1000]))
                pair = draw(st.sampled_from(["()", "-", "!", "{}", "[]"]))
                tokens[at:to] = [pair[0] * times, *tokens[at:to], pair[1:] * times]
            case _:
                tokens.insert(at, draw(st.text(max_size=5)))
    return "".join(tokens)


def texts() -> st.SearchStrategy[str]:
    return st.one_of(mutants(), soups(), st.text(max_size=200))


def attempt(
    text: str, made: Callable[[str], object] = lambda text: tc.compile(text, "reference")
) -> str | None:
    """The code of the error, or None for a program.  Raises whatever else comes out, and Slow."""
    start = time.perf_counter()
    code: str | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made(text)
        except tc.InternalError:
            raise
        except tc.Error as error:
            code = error.code
            str(error)  # the message with its excerpt must come out too
    if (seconds := time.perf_counter() - start) > SECONDS:
        raise Slow(f"{seconds:.1f} s for {text[:200]!r}, {len(text)} characters")
    return code
