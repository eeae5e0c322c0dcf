"""A PTX program as data: operands, instructions, functions and the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A register or a special register such as %tid.x, with its `%`; scoped names end in `#n`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant. `form` is the interpretation of `value`: "int", "f32" or "f64" (bits)."""

    value: int
    form: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function, label or parameter, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset]; the offset is in bytes."""

    base: Register | Immediate | Symbol
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, ...}: the pieces of a vector or of a packed value."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """(a, b, ...): the arguments or results of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`d|p`: a result and a predicate beside it."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`: the complement of a predicate."""

    register: Register


@dataclass(frozen=True, slots=True)
class Coordinates:
    """[tensorMap, {x, y, ...}], an operand of tensor copies."""

    base: Register | Immediate | Symbol
    items: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Address | Vector | Group | Pair | Negated | Coordinates


@dataclass(frozen=True, slots=True)
class Guard:
    """@p or @!p before an instruction."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `parts` is the opcode split at its dots."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int  # of the PTX text, from 1
    text: str

    @property
    def opcode(self) -> str:
        """The opcode with all its qualifiers."""
        return ".".join(self.parts)

    def has(self, qualifier: str) -> bool:
        """Whether the opcode has `.qualifier`."""
        return qualifier in self.parts


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space; `size` is None for the dynamic shared array `[]`.

    `pointers` holds (offset, symbol, addend) for words that are addresses of other variables.
    """

    name: str
    space: str
    size: int | None
    alignment: int
    initial: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal parameter: `type_name` is b8 for arrays, whose `size` is that of the array."""

    name: str
    type_name: str
    size: int
    alignment: int


@dataclass(frozen=True, eq=False)
class PtxFunction:
    """A `.func` or an `.entry` with its body; labels map to positions in `instructions`."""

    name: str
    is_kernel: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    registers: Mapping[str, str]  # name -> type
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    branch_targets: Mapping[str, tuple[str, ...]]
    required_threads: tuple[int, int, int] | None = None  # .reqntid
    maximum_threads: int | None = None  # .maxntid


@dataclass(frozen=True, eq=False)
class PtxKernel(PtxFunction):
    """An `.entry`; `shared_bytes` is its static shared memory, variables of the module included."""

    shared_bytes: int = 0


@dataclass(frozen=True, eq=False)
class PtxModule:
    """A parsed PTX text."""

    text: str
    target: str
    kernels: Mapping[str, PtxKernel]
    functions: Mapping[str, PtxFunction]  # with a body, kernels included
    variables: Mapping[str, Variable]  # of the module: global, const and shared
    caches: dict[str, object] = field(default_factory=dict, repr=False)
