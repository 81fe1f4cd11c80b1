"""Grammars as Lark parsers.  Tables take Lark half a second, so they are kept on disk."""

from __future__ import annotations

import io
import pickle
import sys
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

from tc.cache.disk import default, digest

if TYPE_CHECKING:
    from lark import Lark

_OPTIONS: dict[str, Any] = {
    "start": "program",
    "parser": "lalr",
    "lexer": "contextual",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def grammar_of(package: str) -> str:
    """The grammar of a notation."""
    return resources.files(package).joinpath("grammar.lark").read_text(encoding="utf-8")


def make_lark(package: str, **options: Any) -> Lark:
    """The grammar of a notation as a parser, made anew (tests build it with `strict=True`, which proves it
    unambiguous)."""
    from lark import Lark

    return Lark(grammar_of(package), **_OPTIONS, **options)


def kept_lark(package: str, transformer: object) -> Lark:
    """The same, from tables on disk if they are there; `transformer` acts on rules as they are parsed."""
    from lark import Lark, __version__

    store = default()
    versions = __version__, sys.version_info[:2]
    key = digest("lark", versions, grammar_of(package), sorted(_OPTIONS.items())) if store is not None else ""
    blob = store.get(key) if store is not None else None
    if blob is not None:
        with suppress(Exception):  # tables of another make, which are made anew
            found = pickle.loads(blob)
            return Lark._load_from_dict(  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
                found["data"], found["memo"], transformer=transformer
            )
    parser = make_lark(package, transformer=transformer)
    if store is not None:
        tables = io.BytesIO()
        parser.save(tables, exclude_options=("transformer",))  # pyright: ignore[reportUnknownMemberType]
        store.put(key, tables.getvalue())
    return parser
