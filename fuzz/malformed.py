"""Texts that are hardly ever programs: out come `tc.Error`s, soon, or now and then a kernel.

They are drawn with plain random numbers, many a second; what is found is made short by leaving tokens out.
"""

from __future__ import annotations

import random
import re
import time
import warnings
from collections.abc import Callable, Sequence

import tc
from benchmarks.workloads import CASES
from tests.conformance.cases import REJECTED
from tests.conformance.cases import SEEDS as SEED_CASES
from tests.conformance.upstream import UPSTREAM

SECONDS = 10.0  # for one text, far above what any takes on a loaded machine
_TOKEN = re.compile(r"\w+|\s+|[+\-*/%<>=!&|?:]+|.", re.DOTALL)
SEEDS = tuple(
    dict.fromkeys(
        (
            *(case.workload(tiny=True).source for case in CASES),
            *(case.source.replace("{T}", "float32") for case in (*SEED_CASES, *UPSTREAM)),
            *(source for _, source, *_ in REJECTED),
        )
    )
)
_PLAIN = """
def where in exists float int half double bool uint8 inout f x A B i j N M exp fmax min select float2
0 1 1e99 0x 1. ( ) { } [ ] , : -> = += +=! max= *=! + - * / % ? && || ! < <= == != # // /* */
"""
_WORDS = (*_PLAIN.split(), '"', "'", "\\", "\n", "\t", ";", "@", "é", "\0")
# What a token is replaced by so that the text stays a program's: its own kind.
_KINDS: tuple[tuple[str, str], ...] = (
    (
        r"(float|double|half|bfloat16|bool|u?int(8|16|32|64)?|byte)$",
        "float double half bfloat16 bool int int8 uint8 int16 uint16 uint32 int64 uint64",
    ),
    (r"[\d.]+(e[+-]?\d+)?f?$", "0 1 2 3 7 100 2147483648 1e30 0.5 99999999999999999999"),
    (r"(\+|\*|max|min)?=!?$", "= += +=! *=! max=! min= max="),
    (r"(\+|-|\*|/|%|<|>|<=|>=|==|!=|&&|\|\|)$", "+ - * / % < > <= >= == != && ||"),
    (
        r"(exp|log|tanh|sqrt|fmax|fmin|min|max|abs|fabs|sigmoid|select|pow)$",
        "exp log tanh sqrt fmax fmin min max abs fabs sigmoid select pow floor",
    ),
)
_RESERVED = ("def", "where", "in", "exists")


class Slow(AssertionError):
    """A text took longer than it may."""


def soup(rng: random.Random) -> str:
    """Tokens in any order."""
    return " ".join(rng.choices(_WORDS, k=rng.randrange(60)))


def characters(rng: random.Random) -> str:
    """Any characters, of which most are ASCII."""
    most = rng.choice((127, 127, 255, 0xD7FF, 0x10FFFF))
    codes = (rng.randrange(most + 1) for _ in range(rng.randrange(200)))
    return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)


def bytes_(rng: random.Random) -> str:
    """A file that is not text, as it is read."""
    return rng.randbytes(rng.randrange(200)).decode("utf-8", errors="surrogateescape")


def mutant(rng: random.Random) -> str:
    """A program with tokens lost, doubled, exchanged, replaced or nested."""
    return _edited(rng.choice(SEEDS), rng)


def sibling(rng: random.Random) -> str:
    """A program with tokens replaced by others of their kind: most are programs to the parser."""
    return _replaced(rng.choice(SEEDS), rng)


def changed(text: str, rng: random.Random) -> str:
    """A text changed in one of the two ways."""
    return rng.choice((_edited, _replaced))(text, rng)


def _edited(text: str, rng: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(max(1, len(tokens)))
        to = min(len(tokens), at + rng.randint(1, 6))
        match rng.choice(("lose", "double", "exchange", "replace", "insert", "end", "nest", "text")):
            case "lose":
                del tokens[at:to]
            case "double":
                tokens[at:at] = tokens[at:to]
            case "exchange":
                if tokens:
                    other = rng.randrange(len(tokens))
                    tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at : at + 1] = [rng.choice(_WORDS)]
            case "insert":
                tokens.insert(at, rng.choice(_WORDS))
            case "end":
                del tokens[at:]
            case "nest":
                times = rng.choice((2, 10, 100, 1000))
                pair = rng.choice(("()", "-", "!", "{}", "[]"))
                tokens[at:to] = [pair[0] * times, *tokens[at:to], pair[1:] * times]
            case _:
                tokens.insert(at, characters(rng)[:5])
    return "".join(tokens)


def _replaced(text: str, rng: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    names = [t for t in tokens if re.match(r"[A-Za-z_]\w*$", t) and t not in _RESERVED]
    places = [i for i, t in enumerate(tokens) if not t.isspace() and (t in names or _kind(t))]
    for i in rng.sample(places, min(len(places), rng.randint(1, 4))):
        tokens[i] = rng.choice(_kind(tokens[i]) or names)
    return "".join(tokens)


def _kind(token: str) -> list[str]:
    return next((words.split() for pattern, words in _KINDS if re.match(pattern, token)), [])


def text(rng: random.Random) -> str:
    return rng.choices((sibling, mutant, soup, characters, bytes_), (40, 40, 10, 5, 5))[0](rng)


def shortened(text: str, fails: Callable[[str], bool]) -> str:
    """A part of a text that fails, too: runs of tokens are left out, shorter and shorter ones (Zeller and
    Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002)."""
    tokens: Sequence[str] = _TOKEN.findall(text)
    size = max(1, len(tokens) // 2)
    while size:
        at = 0
        while at < len(tokens):
            less = [*tokens[:at], *tokens[at + size :]]
            if fails("".join(less)):
                tokens = less
            else:
                at += size
        size //= 2
    return "".join(tokens)


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
