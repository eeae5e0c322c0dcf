"""HLO text to module: tokens, grammar, syntax tree, IR.

Call `parse`; call `split_modules` first if the text may hold several modules.
Every fault of the text is an `HloError` with all diagnostics at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hloc.collection import collection_paused
from hloc.errors import Diagnostic, HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.parser.scanner import MAX_ERRORS
from hloc.parser.split import SEPARATOR as SEPARATOR
from hloc.parser.split import split_modules as split_modules
from hloc.parser.to_ast import parse_ast
from hloc.parser.to_ir import ModuleReader
from hloc.source import SourceFile


def parse(source: SourceFile, *, verify: bool = True) -> Module:
    """Return the module that `source` spells.

    Args:
        source: a module, with or without its `HloModule` line, or a single instruction.
        verify: check every shape and attribute too, not only the syntax.

    Raises:
        HloError: with a diagnostic for every fault, in text order.
    """
    with collection_paused():  # 4 MB in 0.5 s instead of 0.8 s
        module = read_module(source, verify=verify)
        if verify:
            from hloc.ir.verifier import verify as verify_module

            verify_module(module)
    module.log.recording = True
    return module


class Reading(NamedTuple):
    """The readable part of a text, for editors.

    Attributes:
        module: None if the text has faults.
        instructions: all that could be read, those of computations with faults last. Operands and
            users are set inside a computation with faults too.
        diagnostics: every fault, in text order.
    """

    module: Module | None
    instructions: tuple[Instruction, ...]
    diagnostics: tuple[Diagnostic, ...]


def parse_leniently(source: SourceFile) -> Reading:
    """Return the module, or the diagnostics and the sound instructions of a faulty text."""
    with collection_paused():
        module, instructions, diagnostics = _read(source, fast=True, verify=True)
        if not diagnostics and module is not None:
            from hloc.ir.verifier import verify as verify_module

            try:
                verify_module(module)
            except HloError as error:
                diagnostics = list(error.diagnostics)
    return Reading(None if diagnostics else module, tuple(instructions), tuple(diagnostics))


def read_module(source: SourceFile, fast: bool = True, *, verify: bool = False) -> Module:
    """Return the module that `source` spells, not verified.

    Args:
        source: a module or a single instruction.
        fast: read XLA's spelling without the grammar; off only for the test that compares both.
        verify: if the text has faults, also report wrong shapes of the other instructions,
            so that one round of corrections is enough.

    Raises:
        HloError: with a diagnostic for every fault, in text order.
    """
    module, _, diagnostics = _read(source, fast=fast, verify=verify)
    if diagnostics:
        raise HloError(diagnostics)
    assert module is not None, "a text without faults has a module"
    return module


def _read(
    source: SourceFile, *, fast: bool, verify: bool
) -> tuple[Module | None, Iterable[Instruction], list[Diagnostic]]:
    """Return the module (None if no header was found), its sound instructions, and all diagnostics.

    Of a text with faults, instructions without any are verified here, so that one run reports
    both.
    """
    tree, diagnostics = parse_ast(source, fast)
    module: Module | None = None
    instructions: Iterable[Instruction] = ()
    if tree is not None:
        reader = ModuleReader(source, diagnostics, fast)
        module = reader.read(tree)
        instructions = reader.sound_instructions()
        if diagnostics and verify:
            from hloc.ir.verifier.instruction import InstructionChecks

            instructions = list(instructions)
            diagnostics += InstructionChecks().check(instructions)
    found = sorted(dict.fromkeys(diagnostics), key=_place)
    if len(found) > MAX_ERRORS:
        more = f"{len(found) - MAX_ERRORS} more errors are not shown"
        found = [*found[:MAX_ERRORS], Diagnostic(more)]
    return module, instructions, found


def _place(diagnostic: Diagnostic) -> int:
    return diagnostic.span.start if diagnostic.span else -1
