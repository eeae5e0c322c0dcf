"""PTX text to a `PtxModule`: directives, functions and their bodies.

Reads the output of LLVM's NVPTX backend, including inline assembly: nested scopes with their own
registers, labels and parameters. Source: PTX ISA, "Syntax" and "Directives".
"""

from __future__ import annotations

from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import PtxFault
from hloc.ptx.program import (
    Guard,
    Instruction,
    Parameter,
    PtxFunction,
    PtxKernel,
    PtxModule,
    Register,
    Variable,
)
from hloc.ptx.text.declarations import (
    read_parameters,
    read_registers,
    read_variable,
    skip_statement,
    static_shared_bytes,
)
from hloc.ptx.text.operands import TokenReader, read_operand

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local")


def parse_ptx(text: str) -> PtxModule:
    """Read a PTX text.

    Raises:
        PtxFault: the text does not follow the grammar; the message names the line.
    """
    reader = TokenReader(text)
    try:
        return _read_module(reader)
    except (LookupError, ValueError) as error:  # an invalid word in a valid token sequence
        line = reader.peek().line
        raise PtxFault(f"the PTX text cannot be read near line {line}", line=line) from error


def _read_module(reader: TokenReader) -> PtxModule:
    """Read the directives of a module; those without meaning here are skipped."""
    target = ""
    functions: dict[str, PtxFunction] = {}
    variables: dict[str, Variable] = {}
    while not reader.at_end():
        word = reader.next().text
        if word == ".target":
            target = reader.peek().text
            skip_statement(reader, at_newline=True)
        elif word in _LINKAGE or word == ";":
            continue
        elif word in (".entry", ".func"):
            function = _read_function(reader, word == ".entry", variables)
            if function is not None:
                functions[function.name] = function
        elif word in _SPACES:
            for variable in read_variable(reader, word[1:]):
                variables[variable.name] = variable
        elif word == ".section":
            reader.skip_braces()
        else:
            skip_statement(reader, at_newline=True)
    kernels = {n: f for n, f in functions.items() if isinstance(f, PtxKernel)}
    return PtxModule(reader.text, target, kernels, functions, variables)


@dataclass
class _Body:
    """A function that is being read. A name declared in an inner scope gets `#number`."""

    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    scope_count: int = 0
    forward: list[tuple[int, tuple[dict[str, str], ...]]] = field(default_factory=list)

    def declare(self, name: str) -> str:
        """Declare `name` in the innermost scope; return its unique name."""
        unique = name if len(self.scopes) == 1 else f"{name}#{self.scope_count}"
        self.scopes[-1][name] = unique
        return unique

    def resolve(self, name: str) -> str:
        """Return the unique name of `name` in the current scope."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name


def _read_function(
    reader: TokenReader, is_kernel: bool, module_variables: dict[str, Variable]
) -> PtxFunction | None:
    """Read a function after `.entry` or `.func`, None for a declaration."""
    results: tuple[Parameter, ...] = ()
    if reader.peek().text == "(":
        results = read_parameters(reader)
    name = reader.next().text
    parameters = read_parameters(reader) if reader.peek().text == "(" else ()
    required, maximum = _read_performance_directives(reader)
    if reader.peek().text == ";":
        reader.next()
        return None
    body = _Body()
    reader.expect("{")
    _read_body(reader, body)
    shared = [v for v in (*module_variables.values(), *body.variables) if v.space == "shared"]
    fields = (
        name,
        is_kernel,
        parameters,
        results,
        body.registers,
        tuple(body.variables),
        tuple(body.instructions),
        body.labels,
        body.branch_targets,
        required,
        maximum,
    )
    if is_kernel:
        return PtxKernel(*fields, shared_bytes=static_shared_bytes(shared))
    return PtxFunction(*fields)


def _read_performance_directives(
    reader: TokenReader,
) -> tuple[tuple[int, int, int] | None, int | None]:
    required, maximum = None, None
    while reader.peek().text not in ("{", ";"):
        word = reader.next().text
        numbers = reader.integers()
        if word == ".reqntid":
            x, y, z = (*numbers, 1, 1)[:3]
            required = (x, y, z)
        elif word == ".maxntid":
            x, y, z = (*numbers, 1, 1)[:3]
            maximum = x * y * z
    return required, maximum


def _read_body(reader: TokenReader, body: _Body) -> None:
    """Read statements up to the brace that closes the function."""
    depth = 1
    while depth:
        token = reader.peek()
        if token.text == "{":
            reader.next()
            depth += 1
            body.scope_count += 1
            body.scopes.append({})
            _declare_labels_ahead(reader, body)
        elif token.text == "}":
            reader.next()
            depth -= 1
            body.scopes.pop()
        elif token.text == ";":
            reader.next()
        elif token.text.startswith(".") and token.kind == "name":
            _read_directive(reader, body)
        elif reader.peek(1).text == ":":
            _read_label(reader, body)
        else:
            body.instructions.append(_read_instruction(reader, body))


def _declare_labels_ahead(reader: TokenReader, body: _Body) -> None:
    """Declare the labels of an inner scope, which may be used before their definition."""
    for name in reader.labels_of_scope():
        body.declare(name)


def _read_label(reader: TokenReader, body: _Body) -> None:
    name = body.resolve(reader.next().text)
    reader.expect(":")
    if reader.peek().text == ".branchtargets":
        reader.next()
        targets = tuple(body.resolve(reader.next().text) for _ in reader.items(";"))
        body.branch_targets[name] = targets
    elif reader.peek().text == ".callprototype":
        skip_statement(reader)
    else:
        body.labels[name] = len(body.instructions)


def _read_directive(reader: TokenReader, body: _Body) -> None:
    word = reader.next().text
    if word == ".reg":
        for name, type_name in read_registers(reader):
            body.registers[body.declare(name)] = type_name
    elif word in (*_SPACES, ".param"):
        for variable in read_variable(reader, word[1:]):
            unique = body.declare(variable.name)
            body.variables.append(
                Variable(unique, variable.space, variable.size, variable.alignment)
            )
    else:
        skip_statement(reader, at_newline=True)


def _read_instruction(reader: TokenReader, body: _Body) -> Instruction:
    first = reader.peek()
    guard = None
    if first.text == "@":
        reader.next()
        negated = reader.peek().text == "!"
        if negated:
            reader.next()
        guard = Guard(Register(body.resolve(reader.next().text)), negated)
    opcode = reader.next().text
    operands = tuple(read_operand(reader, body.resolve) for _ in reader.items(";"))
    end = reader.next()
    text = " ".join(reader.text[first.start : end.start].split())
    return Instruction(tuple(opcode.split(".")), operands, guard, first.line, text)
