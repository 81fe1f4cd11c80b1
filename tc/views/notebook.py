"""Texts of stages as notebooks show them: in lines, not as a string with its escapes."""

from __future__ import annotations

from html import escape


class StageText(str):
    """The text of a stage."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Page(str):
    """A page of HTML, in a frame so that its styles stay there."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self)}" width="100%" height="720"></iframe>'
