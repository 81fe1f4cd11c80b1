"""Schedule trees as plain data, for readers that draw them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tc.poly import tree_text
from tc.poly.context import isl_context

_PIECE = re.compile(r"(\w+)\[[^\]]*\] -> \[\((.*?)\)\]")
_MOST_TEXT = 60  # characters of a domain or context


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a schedule tree: its kind is `domain`, `band`, `sequence`, `set`, `filter`, `mark`, or one of
    isl's others.  `label` says what it does, `stages` what it schedules; leaves are left out."""

    kind: str
    label: str
    stages: tuple[str, ...]
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a part of a program; `title` says of which one, where a program has several."""

    title: str
    root: Node


def trees(text: str) -> tuple[Tree, ...]:
    """The trees of the stage `schedule`: one, or one for each part of a program and each variant of its
    sizes.  Raises InternalError, code TC0902, where the text is none."""
    out: list[Tree] = []
    for title, part in _parts(text):
        with isl_context():
            out.append(Tree(title, _node(tree_text.load(part).get_root())))
    return tuple(out)


def walk(node: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """The nodes below one, and itself, each before those below it, with their depths."""
    yield node, depth
    for c in node.children:
        yield from walk(c, depth + 1)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The texts of the trees, each with the line before it."""
    title, lines = "", list[str]()
    for line in [*text.splitlines(), "domain:"]:
        starts = line.startswith("domain:")
        if lines and (starts or not line.startswith(("domain:", "child:", " "))):
            yield title, "\n".join(lines)
            title, lines = "", []
        if starts or lines:
            lines.append(line)
        else:
            title = line.rstrip(":")


def _node(node: Any) -> Node:
    kind = node.get_type().name.lower()
    children = tuple(_node(node.get_child(i)) for i in range(node.n_children()))
    below = tuple(c for c in children if c.kind != "leaf")
    return Node(kind, _label(kind, node), _stages(kind, node), below)


def _stages(kind: str, node: Any) -> tuple[str, ...]:
    if kind == "leaf":
        return ()
    if kind == "domain":
        return tuple(sorted(_names(node.domain_get_domain()), key=_natural))
    reached = node.filter_get_filter() if kind == "filter" else node.get_domain()
    return tuple(sorted(_names(reached), key=_natural))


def _names(domain: Any) -> set[str]:
    found: set[str] = set()

    def add(one: Any) -> None:
        found.add(one.get_tuple_name() or "")

    domain.foreach_set(add)
    return found - {""}


def _natural(name: str) -> tuple[str | int, ...]:
    """An order of names in which S2 comes before S10."""
    return tuple(int(x) if x.isdigit() else x for x in re.findall(r"\d+|\D+", name))


def _label(kind: str, node: Any) -> str:
    match kind:
        case "band":
            return _band(node)
        case "filter":
            return ", ".join(sorted(_names(node.filter_get_filter()), key=_natural))
        case "mark":
            return str(node.mark_get_id().get_name())
        case "domain":
            return ", ".join(sorted(_names(node.domain_get_domain()), key=_natural))
        case "context":
            return _short(str(node.context_get_context()))
        case "extension":
            return _short(str(node.extension_get_extension()))
        case _:
            return ""


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 2] + " …"


def _band(node: Any) -> str:
    """The loops of a band, as expressions of the statements' variables, and what is known of them."""
    schedule = node.band_get_partial_schedule()
    parts: list[str] = []
    for d in range(node.band_n_member()):
        found = dict(_PIECE.findall(str(schedule.get_union_pw_aff(d))))
        by_text: dict[str, list[str]] = {}
        for name in sorted(found, key=_natural):
            by_text.setdefault(found[name], []).append(name)
        if len(by_text) == 1:
            text = next(iter(by_text))
        else:
            text = ", ".join(f"{e} of {' '.join(names)}" for e, names in by_text.items())
        parts.append(f"{text} (coincident)" if node.band_member_get_coincident(d) else text)
    return "; ".join(parts)
