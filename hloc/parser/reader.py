"""Shared by the readers of instructions and computations: the source, faults, scopes, names.

A fault is recorded and its instruction becomes unknown; users of an unknown instruction are unknown
too, without a message, so that one cause gives one message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from hloc.dtypes import DTYPES
from hloc.errors import Diagnostic, HloError
from hloc.ir.attributes import CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.names import NameUniquer
from hloc.ir.opcode import Opcode
from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean
from hloc.parser.ast import BrokenAst, InstructionAst, Piece
from hloc.parser.attributes import AttributeReader
from hloc.parser.scanner import MAX_ERRORS, fault
from hloc.parser.values import ValueReader
from hloc.shapes import Shape
from hloc.source import SourceFile, Span


class Unknown(Exception):
    """An operand or computation could not be read; that has been reported."""


@dataclass(slots=True)
class Scope:
    """The computation being read, and its instructions by name without `%`.

    Attributes:
        named: by name; None for those that could not be read.
        places: offsets of those; instructions have a span.
    """

    computation: Computation
    named: dict[str, Instruction | None] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    order: list[Instruction] = field(default_factory=list)
    roots: list[Instruction | None] = field(default_factory=list)
    makes_parameters: bool = False
    complete: bool = True

    def define(self, name: str, at: int, inst: Instruction | None) -> None:
        self.named[name] = inst
        if inst is None:
            self.places[name] = at

    def place_of(self, name: str) -> int:
        """Return the offset of the instruction `name`."""
        inst = self.named[name]
        return self.places[name] if inst is None or inst.span is None else inst.span.start


class SourceReader(ABC):
    """Reads one source into one module; faults are collected in `diagnostics`."""

    def __init__(
        self, source: SourceFile, diagnostics: list[Diagnostic], fast: bool = True
    ) -> None:
        """Start with an empty module; `_plain_common` and the like share equal records."""
        self.source = source
        self.fast = fast
        self.diagnostics = diagnostics
        self.values = ValueReader(source, fast)
        self.attributes = AttributeReader(source, self.values)
        self.module = Module("", source=source)
        self._computations: dict[str, Computation | None] = {}
        self._places: dict[str, int] = {}
        self._of_broken: list[Instruction] = []  # read, but in a computation with faults
        self._last_of_text: Computation | None = None
        self._depth = 0
        self._parentheses: dict[tuple[str, str, int], Any] = {}
        self._records: dict[tuple[str, int], Any] = {}
        self._equal_records: dict[tuple[str, Any], Any] = {}
        self._plain_common: dict[str, CommonAttributes] = {}
        # Names of nested instructions must differ from every name so far; see `_anonymous`.
        self._seen_names: list[str] = []
        self._nested_names = NameUniquer()

    def _new_computation(self, name: str, thread: str = "main") -> Computation:
        return Computation(self.module.new_uid(), name, self.module, thread)

    @abstractmethod
    def _body(
        self,
        instructions: tuple[InstructionAst | BrokenAst, ...],
        at: int,
        width: int,
        scope: Scope,
        result: Piece | None = None,
    ) -> Computation | None:
        """Read the instructions of a computation; None if there was a fault."""

    @abstractmethod
    def _finish(self, scope: Scope, result: Piece | None) -> Computation | None:
        """Name the instructions, set the root, check the computation as a whole."""

    @abstractmethod
    def _build(self, tree: InstructionAst, name: str, scope: Scope) -> Instruction:
        """Add the instruction `tree` to the computation of `scope` and return it."""

    def _add(
        self, scope: Scope, name: str, row: Opcode, shape: Shape,
        operands: tuple[Instruction, ...], record: Any, called: tuple[Computation, ...],
        common: Any, control: tuple[Instruction, ...], span: Span | None,
    ) -> Instruction:  # fmt: skip
        # Not `Computation.add`: names become final once the whole computation is read.
        inst = Instruction(
            self.module.new_uid(), name, row, shape, operands, record, called, scope.computation,
            common, control, (), span,
        )  # fmt: skip
        scope.computation.adopt(inst)
        scope.order.append(inst)
        return inst

    def _hint(self, name: str, known: Iterable[str]) -> str:
        """Suggest a similar name, unless the message will not be shown anyway."""
        return did_you_mean(name, known) if len(self.diagnostics) < MAX_ERRORS else ""

    def _place(self, at: int) -> str:
        return Span(self.source, at, at).place()

    def _fault(self, at: int, width: int, message: str, code: str, *notes: str) -> HloError:
        return fault(self.source, at, at + max(width, 1), message, code, *notes)

    def _report(self, at: int, width: int, message: str, code: str, *notes: str) -> None:
        self.diagnostics.extend(
            self._fault(at, width, message, code, *filter(None, notes)).diagnostics
        )


def legal_name(name: str) -> str:
    """Return the legal name that XLA suggests for an instruction and gives to a computation."""
    if name in DTYPES:
        return name + "_"
    if name.startswith("__") and not name.startswith("__xla_"):
        return "a" + name[1:]
    return name
