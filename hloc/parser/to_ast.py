"""Text to syntax tree: modules in XLA's spelling as a whole, others by the grammar."""

from __future__ import annotations

import re
from typing import Any

from hloc.errors import Diagnostic, HloError
from hloc.parser.ast import ModuleAst, Piece
from hloc.parser.lexer import Lexer, Mode
from hloc.parser.scanner import NAME, after_blanks
from hloc.source import SourceFile, Span


def is_module_text(source: SourceFile) -> bool:
    """Tell a module from a single instruction by the first two tokens, as XLA does."""
    text, end = source.text, len(source.text)
    at = after_blanks(text, 0, end)
    first = _FIRST_WORD.match(text, at)
    if first is None:
        return text.startswith("{", at)
    if first.group() in ("HloModule", "ENTRY"):
        return True
    second = after_blanks(text, first.end(), end)
    return text.startswith("{", second)


# Bytes that are no UTF-8 appear as U+DC80 to U+DCFF and are allowed in strings and comments.
_LONE_SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_FIRST_WORD = re.compile(NAME)


def parse_ast(source: SourceFile, fast: bool = True) -> tuple[ModuleAst | None, list[Diagnostic]]:
    """Return the syntax tree of `source` and every syntax fault in it.

    Args:
        source: a module or a single instruction.
        fast: read modules, computations and instructions in XLA's spelling as a whole.
    """
    diagnostics: list[Diagnostic] = []
    nul = source.text.find("\0")
    if nul >= 0:
        span = Span(source, nul, nul + 1)
        return None, [
            Diagnostic("NUL character in the text; is this a binary file?", span, (), "HLOC0112")
        ]
    lone = None if source.text.isascii() else _LONE_SURROGATE.search(source.text)
    if lone:
        span = Span(source, lone.start(), lone.end())
        return None, [Diagnostic("half a character, which is no text", span, (), "HLOC0112")]
    at = after_blanks(source.text, 0, len(source.text))
    if at == len(source.text):
        return None, [Diagnostic("the text is empty", Span(source, 0, 0), (), "HLOC0111")]
    is_module = is_module_text(source)
    lexer = Lexer(source, fast=fast) if is_module else Lexer(source, mode="single")
    found = lexer.whole_module() if is_module else None
    if found is not None:
        return found, diagnostics
    from hloc.parser.structure import parse_structure

    if is_module:
        return parse_structure(lexer, "module", diagnostics), diagnostics
    inst = parse_structure(lexer, "single_instruction", diagnostics)
    if inst is None:
        return None, diagnostics
    return ModuleAst(None, 0, (), 0, None, (), inst), diagnostics


def parse_piece(source: SourceFile, piece: Piece, start: str, mode: Mode, fast: bool = True) -> Any:
    """Parse `piece` of the text from rule `start`; HloError with all its faults."""
    from hloc.parser.structure import parse_structure

    diagnostics: list[Diagnostic] = []
    result = parse_structure(Lexer(source, piece.at, piece.end, mode, fast), start, diagnostics)
    if diagnostics:
        raise HloError(diagnostics)
    return result
