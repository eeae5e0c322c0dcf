"""The match that a rule receives: the instructions bound to the names of its pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hloc.ir.instruction import Instruction
from hloc.opt.values import splat_value


class Value:
    """An instruction as seen by a rule: its fields, its attributes, its dims and dtype.

    `m.x.users`, `m.outer.dimensions`, `m.x.dims`. Two values are equal if they are the same
    instruction. A rule reads values and returns one; it changes nothing.
    """

    __slots__ = ("inst",)

    def __init__(self, inst: Instruction) -> None:
        self.inst = inst

    def __repr__(self) -> str:
        return repr(self.inst)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.inst is other.inst

    def __hash__(self) -> int:
        return hash(self.inst)

    @property
    def opcode(self) -> str:
        """The name of the opcode."""
        return self.inst.opcode.name

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the dimensions of an array."""
        return self.inst.array.dims

    @property
    def dtype(self) -> str:
        """The name of the element type of an array."""
        return self.inst.array.dtype.name

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(map(Value, self.inst.operands))

    @property
    def users(self) -> tuple[Value, ...]:
        return tuple(map(Value, self.inst.users))

    @property
    def value(self) -> Any:
        """The single value of a splat constant or a broadcast of one, else None."""
        return splat_value(self.inst)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for holder in (self.inst, self.inst.attributes):
                if hasattr(holder, name):
                    return getattr(holder, name)
        known = [field for field in getattr(self.inst.attributes, "__dataclass_fields__", ())]
        raise AttributeError(
            f"{self.opcode} has no attribute {name!r}; it has {', '.join(known) or 'none'}"
        )


class Found:
    """`m` of a rule: `m.x` is the instruction bound to `x`, `m.root` the root of the match.

    Names that are not Python identifiers, or are taken, are read as `m["x"]`.
    """

    def __init__(self, root: Instruction, names: Mapping[str, Instruction]) -> None:
        self._values = {name: Value(inst) for name, inst in names.items()} | {"root": Value(root)}

    def __getitem__(self, name: str) -> Value:
        if name not in self._values:
            raise AttributeError(f"the pattern names no {name!r}; it has {', '.join(self._values)}")
        return self._values[name]

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


def plain(value: Any) -> Any:
    """Return `value` with instructions in place of `Value`, inside tuples and lists too."""
    if isinstance(value, Value):
        return value.inst
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return value
