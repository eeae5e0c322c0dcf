"""Operands to rows: the inputs and outputs of instructions, resolved before execution.

At run time, all operands of an instruction are rows: arrays with one element per thread. A row may
be a register viewed as some type, a part of a wider register, a constant, a special register, a
parameter or the address of a variable. `Frame` assigns row numbers when a function is decoded;
`hloc.ptx.registers` creates the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import PtxFault
from hloc.ptx.program import (
    Address,
    Coordinates,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    PtxFunction,
    Register,
    Symbol,
    Vector,
)
from hloc.ptx.value_types import TYPES, PtxType, signed, unsigned


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes of a storage (a register, or a parameter of a function), viewed as a type."""

    storage: str
    offset: int
    dtype: np.dtype[Any]
    columns: int


@dataclass(frozen=True, slots=True)
class Constant:
    """The same bits in every thread."""

    bits: int
    size: int
    dtype: np.dtype[Any]
    columns: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without its `%`."""

    name: str
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """Bytes of the kernel's arguments."""

    offset: int
    dtype: np.dtype[Any]
    columns: int


@dataclass(frozen=True, slots=True)
class AddressOf:
    """The address of a variable in its own state space."""

    name: str
    offset: int
    dtype: np.dtype[Any]


RowSource = Stored | Constant | Special | KernelParameter | AddressOf


@dataclass
class RowTable:
    """All rows of one kernel and the functions it calls."""

    storages: dict[str, int] = field(default_factory=dict)  # name -> bytes per thread
    numbers: dict[RowSource, int] = field(default_factory=dict)

    def number(self, source: RowSource) -> int:
        """Return the number of a row, which is added if it is new."""
        return self.numbers.setdefault(source, len(self.numbers))


@dataclass
class Frame:
    """The names of one function. `shared`, `local` and `parameters` give offsets in bytes."""

    function: PtxFunction
    table: RowTable
    addresses: Mapping[str, str]  # variable or parameter -> its name in the whole kernel
    parameters: Mapping[str, int]  # of the kernel; empty in a called function
    parameter_sizes: Mapping[str, int]  # of called functions, here as callee or caller
    read_registers: frozenset[str]
    instruction: Instruction | None = None  # the one being decoded, for messages

    def fault(self, what: str) -> PtxFault:
        """Return a fault of the instruction that is being decoded."""
        line, text = 0, ""
        if self.instruction is not None:
            line, text = self.instruction.line, self.instruction.text
        return PtxFault(what, kernel=self.function.name, line=line, text=text)

    def source(self, operand: Operand, of: PtxType) -> int:
        """Return the row of an operand that is read as type `of`."""
        if isinstance(operand, Immediate):
            return self.constant(self._bits(operand, of), of)
        if isinstance(operand, Symbol):
            return self._symbol(operand, of)
        if not isinstance(operand, Register):
            raise self.fault(f"operand {operand} cannot be read as .{of.name}")
        if operand.name == "_":
            return self.constant(0, of)
        if operand.name not in self.function.registers:
            if operand.name.startswith("%"):
                return self.table.number(Special(operand.name[1:], of.dtype))
            return self._symbol(Symbol(operand.name), of)
        self._check_width(operand, of)
        return self._stored(operand.name, of)

    def _check_width(self, operand: Register, of: PtxType) -> None:
        if self.size_of(operand) < of.size:
            declared = self.function.registers[operand.name]
            raise self.fault(f"register {operand.name} of .{declared} is too small for .{of.name}")

    def size_of(self, operand: Operand) -> int:
        """Return the bytes of a register."""
        if not isinstance(operand, Register) or operand.name not in self.function.registers:
            raise self.fault(f"{operand} is not a register of {self.function.name}")
        return TYPES[self.function.registers[operand.name]].size

    def target(self, operand: Operand, of: PtxType) -> int:
        """Return the row of a target of type `of`, which is extended to the whole register."""
        if isinstance(operand, Register) and operand.name == "_":
            return self.storage_row("_", 16, 0, of)
        if not isinstance(operand, Register):
            raise self.fault(f"{operand} cannot be written")
        self._check_width(operand, of)
        width = self.size_of(operand)
        if width > of.size and of.kind != "predicate":
            of = signed(width) if of.kind == "signed" else unsigned(width)
        return self._stored(operand.name, of)

    def is_read(self, operand: Operand) -> bool:
        """Whether anything reads this register."""
        return isinstance(operand, Register) and operand.name in self.read_registers

    def predicate(self, operand: Operand) -> tuple[int, bool]:
        """Return the row of a predicate operand and whether it is negated."""
        if isinstance(operand, Negated):
            return self.source(operand.register, TYPES["pred"]), True
        if isinstance(operand, Immediate):
            return self.constant(int(operand.value != 0), TYPES["pred"]), False
        return self.source(operand, TYPES["pred"]), False

    def constant(self, bits: int, of: PtxType) -> int:
        """Return the row that holds the same bits in every thread."""
        return self.table.number(
            Constant(bits & ((1 << of.bits) - 1), of.size, of.dtype, of.columns)
        )

    def storage_row(self, name: str, size: int, offset: int, of: PtxType) -> int:
        """Return the row of bytes of a storage that is not a register."""
        known = self.table.storages.setdefault(name, size)
        if offset + of.size > known:
            raise self.fault(f"access to byte {offset} of {name}, which has {known} bytes")
        return self.table.number(Stored(name, offset, of.dtype, of.columns))

    def parameter_row(self, name: str, offset: int, of: PtxType) -> int:
        """Return the row of bytes of a kernel argument, or of a parameter of a called function."""
        if name in self.parameters:
            return self.table.number(
                KernelParameter(self.parameters[name] + offset, of.dtype, of.columns)
            )
        size = self.parameter_sizes.get(name)
        if size is None:
            raise self.fault(f"`{name}` is not a parameter")
        return self.storage_row(f"{self.function.name}:{name}", size, offset, of)

    def _stored(self, register: str, of: PtxType) -> int:
        name = f"{self.function.name}:{register}"
        size = TYPES[self.function.registers[register]].size
        self.table.storages.setdefault(name, size)
        return self.table.number(Stored(name, 0, of.dtype, of.columns))

    def address(self, operand: Operand) -> tuple[int, int]:
        """Return the row of an address as u64 or u32 and the offset to add."""
        if not isinstance(operand, Address):
            raise self.fault(f"{operand} is not an address")
        base = operand.base
        if isinstance(base, Register) and base.name in self.function.registers:
            size = self.size_of(base)
            return self.source(base, unsigned(size)), operand.offset
        if isinstance(base, Immediate):
            return self.constant(base.value, unsigned(8)), operand.offset
        return self._symbol(Symbol(base.name, operand.offset), unsigned(8)), 0

    def _symbol(self, symbol: Symbol, of: PtxType) -> int:
        if symbol.name not in self.addresses:
            raise self.fault(f"`{symbol.name}` is not declared")
        name = self.addresses[symbol.name]
        return self.table.number(AddressOf(name, symbol.offset, of.dtype))

    def _bits(self, operand: Immediate, of: PtxType) -> int:
        if operand.form == "int":
            if of.is_float and of.columns == 1 and of.dtype.kind == "f" and of.size >= 4:
                value = np.array(operand.value, of.dtype)
                return int.from_bytes(value.tobytes(), "little")
            return operand.value
        held = {"f32": 4, "f64": 8}[operand.form]
        if of.size == held or not of.is_float:
            return operand.value
        dtype = {"f32": np.uint32, "f64": np.uint64}[operand.form]
        value = np.array(operand.value, dtype).view({4: np.float32, 8: np.float64}[held])
        return int.from_bytes(value.astype(of.dtype).tobytes(), "little")

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """Return the pieces of {a, b}, or the operand alone."""
        return operand.items if isinstance(operand, Vector) else (operand,)


def registers_read(instructions: Iterable[Instruction]) -> frozenset[str]:
    """Return the registers that occur elsewhere than as a plain first operand."""
    found: set[str] = set()
    for instruction in instructions:
        if instruction.guard is not None:
            found.add(instruction.guard.register.name)
        stores = instruction.parts[0] in ("st", "red", "bra", "brx", "bar", "barrier")
        named_registers(instruction.operands if stores else instruction.operands[1:], found)
        if instruction.operands and isinstance(instruction.operands[0], Address):
            named_registers(instruction.operands[:1], found)
    return frozenset(found)


def named_registers(operands: Iterable[Operand], found: set[str]) -> None:
    """Add to `found` all registers in operands, at any depth."""
    stack = list(operands)
    while stack:
        operand = stack.pop()
        if isinstance(operand, Register):
            found.add(operand.name)
        elif isinstance(operand, Negated):
            found.add(operand.register.name)
        elif isinstance(operand, Address):
            stack.append(operand.base)
        elif isinstance(operand, Pair):
            stack += (operand.first, operand.second)
        elif not isinstance(operand, Immediate | Symbol):
            if isinstance(operand, Coordinates):
                stack.append(operand.base)
            stack += operand.items
