"""Writes the tables of both levels of the grammar when hloc is installed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hloc.cache_directory import sealed, write_whole
from hloc.parser import structure, value_grammar
from hloc.parser.tables import file_name, made_tables

PARSERS: tuple[tuple[Sequence[str], str | type[Any]], ...] = (
    (structure.STARTS, structure.HloLexer),
    (value_grammar.STARTS, "contextual"),
)
"""The rules at which texts begin, and the lexer."""


def fill_tables(directory: Path) -> None:
    """Write the tables into `directory`, and remove older ones.

    Raises:
        OSError: the directory cannot be written.
    """
    tables = {file_name(*parser): made_tables(*parser) for parser in PARSERS}
    for name, data in tables.items():
        write_whole(directory, name, sealed(name, data))
    for old in directory.glob("grammar-*"):
        if old.name not in tables:
            with suppress(OSError):
                old.unlink()
