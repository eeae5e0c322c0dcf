"""Boxes of a picture, the edges between them, and groups of boxes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import field

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.pictures.layered import Layers


@dataclass(eq=False, slots=True)
class Box:
    """An instruction, or a group of boxes.

    Attributes:
        sort: `instruction`, `computation`, `scope`, `repeat` or `part`.
        title: the first line, `maximum(·, 0)`; `name` and `shape` form the second.
        children: what a group expands into.
        bodies: what an instruction expands into: the roots of called computations.
        edges: for a computation, the edges between its instructions.
        layers: the rows of the children.
        symbol: equal for boxes that differ in names only.
        count: number of instructions in it; `repeats`: how often its first part occurs.
        status, was: its difference from an earlier module.
        hidden: operands and users that a part of a computation leaves out.
    """

    number: int
    sort: str
    title: str
    name: str = ""
    shape: str = ""
    kind: str = "group"
    inst: Instruction | None = None
    children: list[Box] = field(default_factory=list)
    bodies: list[Box] = field(default_factory=list)
    edges: tuple[Edge, ...] = ()
    layers: Layers | None = None
    parent: Box | None = None
    symbol: int = 0
    count: int = 1
    repeats: int = 0
    flops: int = 0
    bytes: int = 0
    status: str = ""
    was: str = ""
    hidden: str = ""

    def add_up(self) -> None:
        """Sum up counts, costs and changes of the children."""
        if not self.children:
            return
        self.count = sum(child.count for child in self.children)
        self.flops = sum(child.flops for child in self.children)
        self.bytes = sum(child.bytes for child in self.children)
        if any(child.status for child in self.children):
            self.status = "changed"

    def leaves(self) -> list[Box]:
        """Return the instructions in it, in their order."""
        found, stack = [], [self]
        while stack:
            box = stack.pop()
            if box.children:
                stack.extend(reversed(box.children))
            else:
                found.append(box)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """From an operand to its user; `gone` if only the earlier module has it."""

    source: Box
    target: Box
    control: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """State shared by all steps: a box factory, numbers for keys, positions in the order."""

    make: Callable[[str, str], Box]
    number: Callable[[Hashable], int]
    order: dict[Box, float]


def group_of(sort: str, title: str, children: Iterable[Box], work: Work) -> Box:
    """Return a new box that contains `children`."""
    box = work.make(sort, title)
    box.children = list(children)
    box.add_up()
    put_in_order(box, work)
    return box


def put_in_order(group: Box, work: Work) -> None:
    """Sort the children by the mean position of their contents, and store that of the group."""
    group.children.sort(key=work.order.__getitem__)
    group.symbol = work.number(("group", *sorted(child.symbol for child in group.children)))
    work.order[group] = sum(work.order[c] for c in group.children) / len(group.children)
