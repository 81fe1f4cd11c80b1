"""Names, calls between defs, and reductions: a syntax tree becomes a checked def.

The result is flat: calls are inlined, so that everything later sees one list of statements.  Checks run
by kind, names before reductions; ranges and types follow in their own passes.
"""

from __future__ import annotations

from tc.errors import Note, SemanticError
from tc.lang import resolved as r
from tc.lang import syntax as s
from tc.lang.flatten import Flattener
from tc.lang.scope import reject_builtin
from tc.lang.type_variables import entry_of


def check(program: s.Program, entry: str | None = None) -> r.Checked:
    """The entry def (by default the last), flattened, with names and reductions checked.

    Every other def is checked too.  Raises `SemanticError`; the warnings of the entry are in the result.
    """
    defs = _defs(program)
    chosen = entry_of(program, entry)
    for d in program.defs:
        if d is not chosen:
            Flattener(defs, d).run()
    return Flattener(defs, chosen).run()


def _defs(program: s.Program) -> dict[str, s.Def]:
    out: dict[str, s.Def] = {}
    for d in program.defs:
        if d.name in out:
            raise SemanticError(
                f"'{d.name}' is defined twice",
                d.name_span,
                code="TC0217",
                notes=[Note("first here", out[d.name].name_span)],
                help="rename one of them",
            )
        reject_builtin(d.name, d.name_span, "a def")
        out[d.name] = d
    return out
