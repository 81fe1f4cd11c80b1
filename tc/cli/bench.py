"""What can be written behind `python -m tc bench`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tc.errors import ArgumentError, did_you_mean

# What an expression of a library may use, beside the def's parameters: a name for each module.
NAMESPACES: dict[str, dict[str, str]] = {
    "numpy": {"np": "numpy", "numpy": "numpy", "math": "math"},
    "torch": {"torch": "torch", "F": "torch.nn.functional", "math": "math"},
    "inductor": {"torch": "torch", "F": "torch.nn.functional", "math": "math"},
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A spelling: `torch: F.softmax(x, 1)` is the library and the expression."""

    library: str
    expression: str

    @property
    def name(self) -> str:
        return f"{self.library}: {self.expression}"


def add_arguments(p: argparse.ArgumentParser) -> None:
    """The arguments of the command, but for those that name the def and its sizes."""
    p.add_argument("file", help="a .tc or .sac file, or - for standard input (TC)")
    p.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="'LIBRARY: EXPRESSION'",
        help="the same in another library, as 'torch: F.softmax(x, 1)', of the def's parameters by name, "
        f"several results as a tuple; libraries are {', '.join(NAMESPACES)} (torch.compile)",
    )
    p.add_argument("--rounds", type=int, default=15, help="in which each has a turn (default 15)")
    p.add_argument("--threads", type=int, help="of each (default: as many as tc takes)")
    p.add_argument("--plot", metavar="FILE.png", help="draw the times")


def peer(text: str) -> Peer:
    """A spelling from the command line; ArgumentError TC0515 where it is none."""
    library, colon, expression = text.partition(":")
    library, expression = library.strip(), expression.strip()
    if not colon or not expression:
        raise ArgumentError(
            f"--against {text}: not of the form 'LIBRARY: EXPRESSION'",
            code="TC0515",
            help="for example --against 'torch: F.softmax(x, 1)'",
        )
    if library not in NAMESPACES:
        known = ", ".join(NAMESPACES)
        raise ArgumentError(
            f"--against {text}: '{library}' is no library that is known here",
            code="TC0515",
            help=did_you_mean(library, NAMESPACES) or f"there are {known}",
        )
    return Peer(library, expression)
