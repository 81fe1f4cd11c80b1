"""SaC texts that are hardly ever programs: out come `tc.Error`s, soon, or now and then a kernel.

    python -m fuzz.sac.malformed [--count 1000] [--seed 0]

The texts are random programs with tokens lost, doubled, exchanged, replaced or nested, and soups of tokens.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
import warnings
from collections import Counter

import tc
from fuzz.malformed import attempt, bytes_, characters, shortened
from fuzz.sac.strategies import program
from fuzz.sac.text import program as text_of
from tc.dtypes import BOOL, FLOAT64, INT32, DType
from tc.errors import Source
from tc.lang.sac.parse import parse
from tc.lang.sac.program import signature_of

_TOKEN = re.compile(r"\w+|\s+|\.\.\.|[+\-*/%<>=!&|?:]+|.", re.DOTALL)
_PLAIN = """
int double bool long float ulong byte with return genarray modarray fold step width true false
shape dim take drop reshape sum prod minval maxval min max abs where mod sqrt iota sel tile transpose reverse
rotate shift all any toi tod i j iv A B n 0 1 2 3 7 2147483648 0x 1. .5 1e9 99999999999999999999 2f
( ) { } [ ] , ; : -> | . ... ++ + - * / % ? && || ! < <= > >= == != = // /* */
"""
_WORDS = (*_PLAIN.split(), '"', "\\", "\n", "@", "é", "\0")
_KINDS = (
    (r"(bool|u?(byte|short|int|long)|float|double)$", "bool byte short int long uint float double"),
    (r"\d+$", "0 1 2 3 7 100 2147483648"),
    (r"(\+|-|\*|/|%|<|>|<=|>=|==|!=|&&|\|\||\+\+)$", "+ - * / % < > <= >= == != && || ++"),
    (r"\.+$", ". ... 0 i"),
    (r"(sum|prod|minval|all|any|reverse|transpose|shape|dim|iota|abs)$", "sum all reverse shape dim iota"),
    (r"(take|drop|rotate|shift|mod|min|max|sel|genarray|reshape)$", "take drop rotate mod genarray"),
)  # fmt: skip
_RESERVED = ("with", "return", "step", "width", "true", "false", "modarray", "fold")
_SEEDS = tuple(text_of(program(seed)) for seed in range(60))


def _kind(token: str) -> list[str]:
    return next((words.split() for pattern, words in _KINDS if re.match(pattern, token)), [])


def sibling(rng: random.Random) -> str:
    """A program with tokens replaced by others of their kind."""
    tokens = _TOKEN.findall(rng.choice(_SEEDS))
    names = [t for t in tokens if re.match(r"[A-Za-z_]\w*$", t) and t not in _RESERVED and not _kind(t)]
    places = [i for i, t in enumerate(tokens) if t in names or _kind(t)]
    for i in rng.sample(places, min(len(places), rng.randint(1, 4))):
        tokens[i] = rng.choice(_kind(tokens[i]) or names)
    return "".join(tokens)


def mutant(rng: random.Random) -> str:
    """A program with tokens lost, doubled, exchanged, replaced or nested."""
    tokens = _TOKEN.findall(rng.choice(_SEEDS))
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(max(1, len(tokens)))
        to = min(len(tokens), at + rng.randint(1, 6))
        match rng.choice(("lose", "double", "exchange", "replace", "insert", "end", "nest")):
            case "lose":
                del tokens[at:to]
            case "double":
                tokens[at:at] = tokens[at:to]
            case "exchange" if tokens:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at : at + 1] = [rng.choice(_WORDS)]
            case "end":
                del tokens[at:]
            case "nest":
                times = rng.choice((2, 10, 100, 1000))
                first, last = rng.choice(
                    (("(", ")"), ("-", ""), ("!", ""), ("{", "}"), ("[", "]"), ("{ i -> ", " }"))
                )
                tokens[at:to] = [first * times, *tokens[at:to], last * times]
            case _:
                tokens.insert(at, rng.choice(_WORDS))
    return "".join(tokens)


def soup(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randrange(60)))


def text(rng: random.Random) -> str:
    return rng.choices((sibling, mutant, soup, characters, bytes_), (40, 40, 10, 5, 5))[0](rng)


def made(source: str) -> None:
    """A kernel of a source, for ranks that follow from its text; most texts end before."""
    syntax = parse(Source(source))
    kernel = tc.compile(source, "reference", lang="sac")
    known: list[tuple[str, int, DType]] = []
    for k, p in enumerate(signature_of(syntax)):
        rank = p.rank if p.rank is not None else max(p.least, (len(source) + k) % 4)
        known.append((p.name, rank, p.dtype or (INT32, FLOAT64, BOOL, INT32)[(len(source) // 4 + k) % 4]))
    if hasattr(kernel, "_kernel"):
        kernel._kernel(tuple(known))  # type: ignore[attr-defined]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.sac.malformed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    rng = random.Random(chosen.seed)
    codes: Counter[str] = Counter()
    found: dict[str, str] = {}
    slowest = (0.0, "")
    for _ in range(chosen.count):
        source = text(rng)
        start = time.perf_counter()
        try:
            codes[attempt(source, made) or "a kernel"] += 1
        except Exception as e:
            kind = f"{type(e).__name__}: {str(e)[:60]}"
            codes[kind] += 1
            if kind not in found:
                found[kind] = source
                print(kind, repr(source), flush=True)
        slowest = max(slowest, (time.perf_counter() - start, source))
    for kind, source in found.items():
        if not kind.startswith("Slow"):
            print(kind, repr(shortened(source, lambda t, kind=kind: _fails(t, kind))), flush=True)
    print(dict(codes.most_common()))
    print(f"the slowest took {slowest[0]:.1f} s: {slowest[1][:300]!r}")
    return 1 if found else 0


def _fails(source: str, kind: str) -> bool:
    try:
        attempt(source, made)
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:60]}" == kind
    return False


if __name__ == "__main__":
    sys.exit(main())
