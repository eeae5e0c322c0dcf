"""Tokens to syntax tree by the grammar: the Lark instance of level 1, its callbacks, and recovery.

On an error the parser discards the broken instruction (or computation), puts a `BAD_...` token in
its place and continues after it, so that one run reports every fault. Imported on demand: importing
Lark takes tens of milliseconds, and most modules do not need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedToken
from lark.lexer import Lexer as LarkLexer

from hloc.errors import Diagnostic, HloError
from hloc.parser.ast import (
    AttributeAst,
    BrokenAst,
    BrokenComputationAst,
    ComputationAst,
    InstructionAst,
    ModuleAst,
    NamedOperand,
    NestedOperand,
    OperandAst,
    Piece,
    ShapeOperand,
)
from hloc.parser.lexer import Lexer, Token
from hloc.parser.scanner import MAX_ERRORS, NAME
from hloc.parser.tables import make_parser
from hloc.source import Span

STARTS = ["module", "single_instruction", "operands", "inline_computation"]
"""The rules at which a text may begin."""

_SAYS = {
    "HLO_MODULE": "'HloModule'", "ENTRY": "'ENTRY'", "ROOT": "'ROOT'", "NAME": "a name",
    "EQUALS": "'='", "SHAPE": "a shape", "OPCODE": "an opcode", "OPERANDS": "'('",
    "COMMA": "','", "ATTRIBUTE": "an attribute (`name=value`)", "TABLES": "stack-frame tables",
    "PARAMETERS": "'('", "ARROW": "'->'", "LBRACE": "'{'", "RBRACE": "'}'",
    "INSTRUCTIONS": "an instruction", "$END": "the end of the text",
}  # fmt: skip


class HloLexer(LarkLexer):
    """The coarse lexer in Lark's interface: `Lark(..., lexer=HloLexer)`, text = a `Lexer`."""

    def __init__(self, lexer_conf: Any) -> None:
        """Ignore Lark's configuration."""

    def lex(self, lexer: Any, parser_state: Any = None) -> Iterator[Any]:
        """Yield the tokens of `lexer`."""
        while (token := lexer.next_token()) is not None:
            yield token


class _ToAst(Transformer[Any, Any]):
    """Callbacks by rule name; Lark calls them while it parses, so no tree is ever built."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    def attributes(self, children: list[Any]) -> list[AttributeAst]:
        return [token.value for token in children if token.type == "ATTRIBUTE"]

    def module(self, children: list[Any]) -> ModuleAst:
        name, at, attributes, tables = None, 0, [], None
        computations: list[Any] = []
        for child in children:
            if isinstance(child, tuple) and isinstance(child[0], Token):
                name, at, attributes = child[0].value, child[0].start, child[1]
            elif isinstance(child, Token):
                tables = Piece(child.value, child.start)
            elif isinstance(child, list):
                computations += child
            else:
                computations.append(child)
        return ModuleAst(name, at, *_relative(attributes), tables, tuple(computations))

    def header(self, children: list[Any]) -> tuple[Token, list[AttributeAst]]:
        return children[1], children[2]

    def entry(self, _children: list[Any]) -> bool:
        return True

    root = entry

    def signature(self, children: list[Any]) -> tuple[Piece, Piece]:
        parameters, _arrow, result = children
        return Piece(parameters.value, parameters.start), Piece(result.value, result.start)

    def body(self, children: list[Any]) -> tuple[Any, ...]:
        instructions: list[Any] = []
        for child in children[1:-1]:
            if isinstance(child, list):
                instructions += child
            else:
                instructions.append(child)
        return tuple(instructions)

    def computation(self, children: list[Any]) -> ComputationAst:
        is_entry = children[0] is True
        name, *middle, instructions, attributes = children[1:] if is_entry else children
        parameters, result = middle[0] if middle else (None, None)
        return ComputationAst(
            name.value, name.start, is_entry, parameters, result, instructions,
            *_relative(attributes),
        )  # fmt: skip

    def bad_computation(self, children: list[Any]) -> BrokenComputationAst:
        (token,) = children
        found = _COMPUTATION_NAME.match(token.value)
        return BrokenComputationAst(found.group(1) if found else "", token.start)

    def run(self, children: list[Any]) -> list[Any]:
        found: list[Any] = children[0].value
        return found

    def bad_instruction(self, children: list[Any]) -> BrokenAst:
        (token,) = children
        found = _INSTRUCTION_NAME.match(token.value)
        return BrokenAst(found.group(1) if found else "", token.start)

    def spelled(self, children: list[Any]) -> InstructionAst:
        is_root = children[0] is True
        name, _equals, *rest = children[1:] if is_root else children
        return _instruction(name.value, name.start, is_root, rest)

    def nameless(self, children: list[Any]) -> InstructionAst:
        return _instruction("", children[0].start, False, children)

    def single_instruction(self, children: list[Any]) -> InstructionAst:
        inst: InstructionAst = children[0]
        return inst

    def inline_computation(self, children: list[Any]) -> tuple[Any, ...]:
        body: tuple[Any, ...] = children[0]
        return body

    def operands(self, children: list[Any]) -> list[OperandAst]:
        return children[::2]

    def named_operand(self, children: list[Any]) -> NamedOperand:
        shape = children[: children[0].type == "SHAPE"]
        name, *elements = children[len(shape) :]
        path = tuple(element.value for element in elements)
        return NamedOperand(name.value, name.start, _piece(shape), path)

    def nested_operand(self, children: list[Any]) -> NestedOperand:
        *shape, opcode, operands = children
        inner = Piece(operands.value, operands.start + 1)
        return NestedOperand(opcode.value, opcode.start, _piece(shape), inner)

    def shape_operand(self, children: list[Any]) -> ShapeOperand:
        return ShapeOperand(Piece(children[0].value, children[0].start))


_COMPUTATION_NAME = re.compile(rf"\s*(?:ENTRY\s+)?({NAME})", re.ASCII)
_INSTRUCTION_NAME = re.compile(rf"\s*(?:ROOT\s+)?({NAME})\s*=", re.ASCII)


def _piece(tokens: list[Token]) -> Piece | None:
    return Piece(tokens[0].value, tokens[0].start) if tokens else None


def _relative(attributes: list[AttributeAst]) -> tuple[tuple[AttributeAst, ...], int]:
    """Return the attributes with offsets relative to the first, and the offset of the first."""
    if not attributes:
        return (), 0
    start = attributes[0].at
    return (
        tuple(AttributeAst(a.key, a.value, a.at - start, a.value_at - start) for a in attributes),
        start,
    )


def _instruction(name: str, at: int, is_root: bool, rest: list[Any]) -> InstructionAst:
    shape, opcode, operands, attributes = rest if len(rest) == 4 else (None, *rest)
    metadata = [a for a in attributes if a.key == "metadata"]
    others = [a for a in attributes if a.key != "metadata"] + metadata[1:]
    return InstructionAst(
        name, at, is_root,
        shape.value if shape else None, shape.start if shape else opcode.start,
        opcode.value, opcode.start, operands.value, operands.start + 1,
        *_relative(others),
        Piece(metadata[0].value, metadata[0].value_at) if metadata else None,
    )  # fmt: skip


@cache
def _lark() -> Lark:
    return make_parser(STARTS, HloLexer, _ToAst())


def parse_structure(lexer: Lexer, start: str, diagnostics: list[Diagnostic]) -> Any:
    """Parse the tokens of `lexer` from rule `start`; faults are appended to `diagnostics`.

    Returns:
        The value of the callback of `start`, or None if there is no recovery.
    """
    # The loop of Lark's interactive parser, written out: its wrappers take one token at a time
    # and would double the time of a large module.
    state = _lark().parse_interactive(None, start=start).parser_state
    feed: Any = state.feed_token  # takes any object with a `type`
    next_token = lexer.next_token
    end = Token("$END", "", lexer.end, lexer.end)
    while True:
        token: Token | None = None
        try:
            token = next_token()
            if token is not None:
                feed(token)
                continue
            token = end
            return feed(end, True)
        except HloError as error:
            diagnostics.extend(error.diagnostics)
            if diagnostics[-1].code == "HLOC0103":
                return None  # do not search for the end of a text nested too deeply
            at = _resume_offset(lexer, diagnostics[-1])
        except UnexpectedToken as error:
            assert token is not None
            if token is not end or not (diagnostics and diagnostics[-1].code == "HLOC0102"):
                diagnostics.append(_syntax_error(lexer, token, error))
            at = token.start
        if len(diagnostics) >= MAX_ERRORS or not _recover(state, lexer, at, token is end):
            return None


def _resume_offset(lexer: Lexer, diagnostic: Diagnostic) -> int:
    """Return where to resume after a fault of the lexer."""
    if diagnostic.span is None:
        return lexer.at
    start = diagnostic.span.start
    if lexer.text.startswith(('"', "'"), start):  # the rest of the line is inside the string
        end = lexer.text.find("\n", start)
        return end if end >= 0 else lexer.end
    return max(start + 1, lexer.at)


def _recover(state: Any, lexer: Lexer, at: int, at_end: bool) -> bool:
    """Put a `BAD_...` token in place of the broken text; False if there is no recovery."""
    if at_end or lexer.mode not in ("module", "body"):
        return False
    if not lexer.in_body and lexer.previous in ("", "HLO_MODULE"):
        lexer.previous = ""
    token = lexer.skip_to_next(max(at, lexer.instruction_at if lexer.in_body else at))
    if lexer.mode == "body" and token.type == "BAD_COMPUTATION":
        return False
    return _feed_after_popping(state, token)


def _feed_after_popping(state: Any, token: Token) -> bool:
    states = state.parse_conf.states
    while True:
        if token.type in states[state.state_stack[-1]]:
            try:
                state.feed_token(token)
                return True
            except UnexpectedToken:
                pass  # it was the lookahead of a reduction to a state that does not accept it
        if len(state.state_stack) == 1:
            return False
        state.state_stack.pop()
        state.value_stack.pop()


def _syntax_error(lexer: Lexer, token: Token, error: UnexpectedToken) -> Diagnostic:
    """Return what the grammar expected at `token`, in words, with notes on likely causes."""
    names = [_SAYS[name] for name in _SAYS if name in error.expected]
    if {"NAME", "INSTRUCTIONS"} <= error.expected:
        names = ["an instruction", "'}'"] if "RBRACE" in error.expected else ["an instruction"]
    expected = " or ".join(dict.fromkeys(names))
    found = _shown(token)
    if lexer.mode == "operands":
        expected = expected.replace(_SAYS["$END"], "')'")
        found = found.replace(_SAYS["$END"], "')'")
    notes = []
    if token.type == "ATTRIBUTE" and "NAME" in error.expected:
        notes.append(f"`{token.value.key}=` reads as an attribute; write a blank before the '='")
    if token.type == "$END" and "RBRACE" in error.expected:
        notes.append("the text ends inside a computation")
    if lexer.mode == "single" and lexer.source.name.endswith(".py"):
        notes.append("this is Python, not HLO: `hlo-repl --jax FILE.py` stops at what JAX compiles")
    elif lexer.mode == "single" and token.start > 0:
        notes.append("without a `HloModule` line the text is read as a single instruction")
    span = Span(lexer.source, token.start, max(token.end, token.start + 1))
    if token.type == "ATTRIBUTE":
        span = Span(lexer.source, token.start, token.start + len(token.value.key))
    return Diagnostic(f"expected {expected} but found {found}", span, tuple(notes), "HLOC0101")


def _shown(token: Token) -> str:
    if token.type == "$END":
        return "the end of the text"
    if token.type == "ATTRIBUTE":
        return f"attribute {token.value.key}"
    if token.type in ("OPERANDS", "PARAMETERS"):
        return "'('"
    if token.type == "INSTRUCTIONS":
        return f"instruction {token.value[0].name}"
    if token.type == "COMPUTATIONS":
        return f"computation {token.value[0].name}"
    text = str(token.value)
    return f"'{text[:40]}...'" if len(text) > 40 else f"'{text}'"
