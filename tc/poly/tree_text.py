"""Schedule trees as text, and back."""

from __future__ import annotations

import re

import islpy as isl

from tc.errors import Error, InternalError
from tc.poly.context import isl_context

_POINTER = re.compile(r"@0x[0-9a-fA-F]+")


def dump(schedule: isl.Schedule) -> str:
    """The tree in block style, one node a line, ending in a newline; equal trees give equal text."""
    with isl_context():
        printer = isl.Printer.to_str(schedule.get_ctx())
        printer = printer.set_yaml_style(isl.yaml_style.BLOCK)
        text = printer.print_schedule(schedule).get_str()
    text = _POINTER.sub("", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def load(text: str) -> isl.Schedule:
    """The tree that `dump` wrote.  Raises InternalError (TC0902) where the text is none.

    Use the result inside `isl_context()`.
    """
    with isl_context() as ctx:
        try:
            return isl.Schedule.read_from_str(ctx, text)
        except Error:
            raise
        except Exception as error:  # islpy's Error has no public name that is stable
            raise InternalError(
                f"not a schedule tree: {error}", code="TC0902", help="give the text that `schedule` shows"
            ) from error
