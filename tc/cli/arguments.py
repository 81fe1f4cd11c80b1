"""What the flags of several commands say: the source, the kernel that it becomes, sizes, scalars, arrays."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tc.errors import ArgumentError, DTypeError, ParseError, Source, Span

if TYPE_CHECKING:
    from tc.cli.replay import Case
    from tc.cli.request import Request


# Flags whose values are NAME=VALUE, of which several may follow one flag.
_NAMED = ("--size", "--scalar", "--option", "--type", "--rank", "--input", "--output", "--dynamic", "--fix")


def one_each(argv: Sequence[str]) -> list[str]:
    """A command line with a flag for each value: `--size M=8 N=9 FILE` as `--size M=8 --size N=9 FILE`."""
    out: list[str] = []
    flag = ""  # whose values go on
    values = 0  # of it so far
    for word in argv:
        if word.startswith("-"):
            flag, equals, _ = word.partition("=")
            flag, values = flag if flag in _NAMED else "", int(bool(equals))
        elif flag:
            if values and not re.match(r"\w+=", word):
                flag = ""
            elif values:
                out.append(flag)
            values += 1
        out.append(word)
    return out


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; ends the process, as argparse does, if it does not parse.

    argparse takes a file that may be left away as left away where flags stand before it (until Python 3.12).
    """
    args, rest = parser.parse_known_args(one_each(argv))
    words = [w for w in rest if not w.startswith("-")]
    if len(words) == len(rest) == 1 and getattr(args, "file", "") is None:
        args.file, rest = words[0], []
    elif len(words) == len(rest) and isinstance(getattr(args, "what", None), list):
        args.what, rest = [*args.what, *words], []
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def target_arguments(p: argparse.ArgumentParser) -> None:
    """The flags that say what to compile: the def, the backend, sizes, scalars, types, options."""

    def many(flag: str, example: str, help: str) -> None:
        p.add_argument(flag, action="append", default=[], metavar=example, help=help)

    p.add_argument("--entry", help="the def (default: the last)")
    p.add_argument("--backend", help="the backend (default: chosen)")
    many("--size", "M=128,N=64", "sizes, or integer scalars")
    many("--scalar", "a=0.5", "a scalar parameter (default 0.5, 1 for integers)")
    many("--option", "NAME=JSON", "an option of tc.Options")
    many("--type", "T=double", "the element type of a type variable")
    many(
        "--rank", "A=2", "the rank of a parameter that a SaC program leaves open; A=2:float for its type, too"
    )


def dynamic_argument(p: argparse.ArgumentParser) -> None:
    """The flag for sizes that the kernel keeps open."""
    help = "a size that the kernel serves every value of, if wanted with a typical one"
    p.add_argument("--dynamic", action="append", default=[], metavar="B[=64]", help=help)


def data_arguments(p: argparse.ArgumentParser, default: str) -> None:
    """The flags that say what a kernel is called with."""
    p.add_argument(
        "--data",
        metavar="normal|integers|FILE.npz",
        default=default,
        help="floating inputs: normally distributed, or small integers; or inputs and scalars by name, from "
        f"a file of np.savez (default: {default})",
    )
    p.add_argument("--input", action="append", default=[], metavar="A=a.npy", help="an input array")
    p.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")


def _dynamic(given: list[str]) -> dict[str, int | None]:
    """{size: typical value or None} from the flags."""
    typical = numbers([x for x in given if "=" in x], "--dynamic", whole=True)
    return {x.split("=")[0]: int(typical[x.split("=")[0]]) if "=" in x else None for x in given}


def read_source(file: str) -> Source:
    """A source from a file or standard input, UTF-8 with or without a byte order mark."""
    from tc.lang.parse import MAX_SOURCE

    name = "<stdin>" if file == "-" else file
    limit = 4 * (MAX_SOURCE + 1)  # bytes; what is longer is refused by the parser
    if file != "-":
        with Path(file).open("rb") as f:
            data = f.read(limit)
    else:
        raw = getattr(sys.stdin, "buffer", None)
        data = raw.read(limit) if raw is not None else sys.stdin.read(limit).encode()
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    try:
        return Source(data.decode(), name)
    except UnicodeDecodeError as e:
        at = len(data[: e.start].decode())
        raise ParseError(
            f"byte 0x{data[e.start]:02X} is not UTF-8",
            Span(Source(data.decode(errors="replace"), name), at, at + 1),
            code="TC0107",
            help="a source is a text in UTF-8",
        ) from None


def each_of(items: Sequence[str]) -> list[str]:
    """What commas separate in the values of a flag."""
    return [part for item in items for part in item.split(",")]


def pairs(items: Sequence[str], flag: str) -> dict[str, str]:
    """{name: value} from values of a flag of the form NAME=VALUE."""
    out: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise ArgumentError(f"{flag} {item}: not of the form NAME=VALUE", code="TC0515")
        if name in out:
            raise ArgumentError(f"{flag}: '{name}' is given twice", code="TC0515")
        out[name] = value
    return out


def numbers(items: Sequence[str], flag: str, *, whole: bool) -> dict[str, Any]:
    """{name: number} from the values of a flag."""
    return {name: number(name, value, flag, whole) for name, value in pairs(each_of(items), flag).items()}


def number(name: str, value: str, flag: str, whole: bool) -> int | float | bool:
    """A number that a flag gives a name; `whole`: an integer."""
    if not whole and value in ("true", "false"):
        return value == "true"
    try:
        return int(value, 0)
    except ValueError:
        pass
    try:
        if not whole:
            return float(value)
    except ValueError:
        pass
    what = "an integer" if whole else "a number, true or false"
    raise ArgumentError(f"{flag} {name}={value}: not {what}", code="TC0515")


def kernel_of(
    args: argparse.Namespace, source: Source, case: Case | None = None, *, generic: bool = False
) -> Any:
    """The kernel of a source; what the flags do not say is as in a reproducer.  `generic`: it may have type
    variables that no flag gives.

    Its options and dynamic sizes are for its backend: another one gets neither.
    """
    from tc.api import compile_source
    from tc.open_kernels.generic_kernel import GenericKernel
    from tc.open_kernels.polymorphic import PolymorphicKernel
    from tc.options import Options

    same = case if case is not None and args.backend in (None, case.backend) else None
    options: dict[str, Any] = dict(same.options) if same else {}
    for name, value in pairs(args.option, "--option").items():
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            raise ArgumentError(
                f"--option {name}={value}: not JSON",
                code="TC0515",
                help=f"""write true, false, null, a number, or a text in quotes: {name}='"{value}"'""",
            ) from None
    types = pairs(each_of(args.type), "--type")
    lang = "sac" if source.name.endswith(".sac") else "tc"
    made: Any = compile_source(
        source,
        lang=lang,
        backend=args.backend or (case.backend if case else None),
        entry=args.entry or (case.entry if case else None),
        options=Options.from_mapping(options),
        checks=case.checks if case else "safe",
        stacklevel=2,
        dynamic={**(same.dynamic if same else {}), **_dynamic(getattr(args, "dynamic", []))},
        types=types or None,
    )
    if isinstance(made, GenericKernel) and not generic:
        raise DTypeError(
            f"the type variable {made.variables[0].name} of '{made.name}' is not given",
            made.variables[0].span,
            code="TC0410",
            help=f"write --type {made.variables[0].name}=float",
        )
    ranks = _ranks(args.rank)
    if isinstance(made, PolymorphicKernel):
        return made.at(**ranks)
    if ranks:
        raise ArgumentError(
            f"--rank: '{made.name}' leaves no rank open", code="TC0515", help="leave --rank away"
        )
    return made


def _ranks(given: list[str]) -> dict[str, Any]:
    """{parameter: rank, or rank and type} from the flags."""
    out: dict[str, Any] = {}
    for name, value in pairs(each_of(given), "--rank").items():
        rank, _, dtype = value.partition(":")
        many = int(number(name, rank, "--rank", whole=True))
        out[name] = (many, dtype) if dtype else many
    return out


def request_of(args: argparse.Namespace) -> Request:
    """Sizes, scalars and files, from the flags."""
    from tc.cli.request import Request

    return Request(
        sizes=numbers(args.size, "--size", whole=True),
        scalars=numbers(args.scalar, "--scalar", whole=False),
        inputs=pairs(args.input, "--input"),
        outputs=pairs(getattr(args, "output", []), "--output"),
        data=args.data,
        seed=args.seed,
        check=getattr(args, "check", False),
    )
