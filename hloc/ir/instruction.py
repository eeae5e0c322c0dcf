"""One instruction of a computation. Changed only through `Computation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloc.ir.attributes import NO_COMMON, CommonAttributes
from hloc.ir.opcode import Opcode
from hloc.ir.users import Users
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, Shape, array_leaves
from hloc.source import Span

if TYPE_CHECKING:
    from hloc.ir.computation import Computation


@dataclass(eq=False, slots=True)
class Instruction:
    """One operation; identity is `uid`, which survives every rewrite and clone.

    Attributes:
        uid: unique in the module, never reused.
        attributes: the row's attributes dataclass, None if the row has none.
        called: called computations in the order of the row's `calls`.
        control_predecessors: instructions that must run before, besides the operands.
        common: attributes every opcode may have: metadata, sharding, backend config ...
        users: ordered set, kept consistent with the `operands` of all instructions.
        span: its place in the text, None if a pass made it.
    """

    uid: int
    name: str
    opcode: Opcode
    shape: Shape
    operands: tuple[Instruction, ...]
    attributes: Any
    called: tuple[Computation, ...]
    computation: Computation
    common: CommonAttributes = NO_COMMON
    control_predecessors: tuple[Instruction, ...] = ()
    users: Users[Instruction] = ()
    span: Span | None = None

    def __repr__(self) -> str:
        operands = ", ".join(operand.name for operand in self.operands)
        return f"{self.name} = {self.shape} {self.opcode.name}({operands})"

    def is_a(self, *names: str) -> bool:
        """True if the opcode is one of `names`."""
        return self.opcode.name in names

    @property
    def op_name(self) -> str:
        """The name that its metadata gives the operation, "" for none."""
        return self.common.metadata.op_name if self.common.metadata else ""

    @property
    def array(self) -> ArrayShape:
        """The shape, which the caller guarantees to be an array."""
        assert isinstance(self.shape, ArrayShape), self
        return self.shape

    @property
    def operand_arrays(self) -> list[ArrayShape]:
        """The array leaves of all operands, in order."""
        return [leaf for operand in self.operands for leaf in array_leaves(operand.shape)]

    @property
    def is_root(self) -> bool:
        return self.computation._root is self
