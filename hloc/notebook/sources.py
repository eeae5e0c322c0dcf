"""Sources of a module: the text of a cell, a variable, or a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hloc import driver
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.near_names import near_name_notes

CELL = "<cell>"
"""The name of the text of a cell in messages."""


def module_of_cell(text: str) -> Module:
    """Return the module in the text below `%%hlo`; lines are counted as the notebook does.

    Raises:
        HloError: the errors of the text, with line and caret.
    """
    return driver.parse_text(f"\n{text}", name=CELL)


def module_named(source: str, variables: Mapping[str, Any]) -> Module:
    """Return the module of a variable, which holds a module, text or a JAX program, or of a file.

    Raises:
        HloError: there is neither, or it contains no module.
    """
    if source not in variables:
        if os.path.exists(source):
            return driver.load_module(source)
        notes = near_name_notes(source, [name for name in variables if not name.startswith("_")])
        raise HloError(f"there is no variable or file {source!r}", notes=notes)
    return module_in(variables[source], source)


def module_in(value: object, name: str) -> Module:
    """Return the module in `value`: a module, a JAX program, or HLO text.

    Raises:
        HloError: it is none of these; `name` is its name in the message.
    """
    if isinstance(value, str):
        return driver.parse_text(value, name=name)
    found = getattr(value, "module", value)
    if not isinstance(found, Module):
        raise HloError(f"{name} is no module, but of type {type(value).__name__}")
    return found
