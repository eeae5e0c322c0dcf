"""Declarations in PTX: registers, variables in a state space, and formal parameters."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ptx.faults import PtxFault
from hloc.ptx.program import Parameter, Variable
from hloc.ptx.text.operands import TokenReader, integer
from hloc.ptx.value_types import TYPES


def skip_statement(reader: TokenReader, at_newline: bool = False) -> None:
    """Skip to the semicolon, or for directives such as .version to the end of the line."""
    line = reader.peek().line
    while not reader.at_end():
        if at_newline and reader.peek().line != line:
            return
        if reader.next().text == ";":
            return


def read_registers(reader: TokenReader) -> list[tuple[str, str]]:
    """Read `.b32 %r<5>, %x;` after `.reg`: names and their type."""
    type_name = reader.next().text[1:]
    found = []
    while reader.peek().text != ";":
        name = reader.next().text
        if reader.peek().text == "<":
            reader.next()
            count = integer(reader.next().text)
            reader.expect(">")
            found += [(f"{name}{i}", type_name) for i in range(count)]
        elif name != ",":
            found.append((name, type_name))
    reader.expect(";")
    return found


def read_parameters(reader: TokenReader) -> tuple[Parameter, ...]:
    """Read `(.param .u64 .ptr .global .align 16 name, ...)`."""
    reader.expect("(")
    found: list[Parameter] = []
    type_name, alignment = "", 0
    while reader.peek().text != ")":
        word = reader.next().text
        if word == ",":
            type_name, alignment = "", 0
        elif word == ".align":
            alignment = integer(reader.next().text)
        elif word[1:] in TYPES:
            type_name = word[1:]
        elif not word.startswith("."):
            size = TYPES[type_name].size
            count = _read_extent(reader)
            # The alignment of a pointer parameter is that of its target.
            natural = alignment if count is not None and alignment else size
            found.append(Parameter(word, type_name, size * (count or 1), natural))
    reader.expect(")")
    return tuple(found)


def _read_extent(reader: TokenReader) -> int | None:
    """Read `[n]` or `[n][m]`; 0 for `[]`, None without brackets."""
    count: int | None = None
    while reader.peek().text == "[":
        reader.next()
        length = 0 if reader.peek().text == "]" else integer(reader.next().text)
        count = length if count is None else count * length
        reader.expect("]")
    return count


def read_variable(reader: TokenReader, space: str) -> list[Variable]:
    """Read a declaration after `.shared`, `.global`, ...: `.align 16 .b8 name[64] = {...};`."""
    alignment, type_name = 0, "b8"
    while reader.peek().text.startswith("."):
        word = reader.next().text
        if word == ".align":
            alignment = integer(reader.next().text)
        elif word[1:] in TYPES:
            type_name = word[1:]
        elif word in (".attribute", ".managed"):
            continue
    element = TYPES[type_name].size
    found = []
    while True:
        name = reader.next().text
        count = _read_extent(reader)
        size: int | None = element if count is None else element * count
        initial = b""
        pointers: list[tuple[int, str, int]] = []
        if reader.peek().text == "=":
            reader.next()
            initial, pointers = _read_initializer(reader, element)
        if count == 0:
            size = len(initial) or None
        found.append(Variable(name, space, size, alignment or element, initial, tuple(pointers)))
        if reader.next().text != ",":
            return found


def _read_initializer(
    reader: TokenReader, element: int
) -> tuple[bytes, list[tuple[int, str, int]]]:
    """Read `= 3` or `= {1, 2, symbol+8, generic(symbol)}`."""
    data = bytearray()
    pointers: list[tuple[int, str, int]] = []
    depth = 0
    while True:
        token = reader.peek()
        if token.text == "{":
            depth += 1
        elif token.text == "}":
            depth -= 1
        elif token.text == ";" or (token.text == "," and not depth):
            return bytes(data), pointers
        elif token.kind == "name" and token.text not in ("generic",):
            addend = 0
            if reader.peek(1).text == "+":
                reader.next()
                reader.next()
                addend = integer(reader.peek().text)
            elif reader.peek(1).text == ")" and reader.peek(2).text == "+":
                for _ in range(3):
                    reader.next()
                addend = integer(reader.peek().text)
            pointers.append((len(data), token.text, addend))
            data += bytes(element)
        elif token.kind in ("integer", "float"):
            data += _constant(token.text, element)
        elif token.text == "-":
            reader.next()
            value = -integer(reader.peek().text)
            data += (value & ((1 << 8 * element) - 1)).to_bytes(element, "little")
        elif token.text not in (",", "(", ")", "generic"):
            raise PtxFault(f"unexpected `{token.text}` in an initializer", line=token.line)
        reader.next()


def _constant(text: str, element: int) -> bytes:
    if text[1:2] in ("f", "F", "d", "D"):
        return int(text[2:], 16).to_bytes(element, "little")
    return (integer(text) & ((1 << 8 * element) - 1)).to_bytes(element, "little")


def static_shared_bytes(variables: Sequence[Variable]) -> int:
    """Return the bytes of the shared variables of fixed size, laid out in order."""
    return shared_layout(variables)[1]


def shared_layout(variables: Sequence[Variable]) -> tuple[dict[str, int], int]:
    """Return the offset of each shared variable, dynamic ones last, and the static bytes."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        if variable.size is not None:
            end = -(-end // variable.alignment) * variable.alignment
            offsets[variable.name] = end
            end += variable.size
    for variable in variables:
        if variable.size is None:
            offsets[variable.name] = -(-end // variable.alignment) * variable.alignment
    return offsets, end
