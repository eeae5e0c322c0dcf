"""Rich display of objects in notebooks; renderers are registered by upper layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NotebookView:
    """Base of classes that Jupyter and marimo draw if `DRAW` has their name."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        draw = DRAW.get(type(self).__name__)
        return draw(self) if draw else None


class PrintedView(NotebookView):
    """A view that terminals and text cells show as `str()`."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


DRAW: dict[str, Callable[[Any], str]] = {}
"""Name of a class -> the function that returns its HTML; `hloc/__init__.py` fills it."""
