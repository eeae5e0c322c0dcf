"""The contents of a picture: boxes that open into boxes, and the edges between instructions.

A scene has no coordinates or colours. Every computation is one tree: the root
contains groups (`grouping`), their leaves are instructions, and an instruction has the trees of its
called computations as `bodies`. Trees are shared: two calls of one computation open into the same
one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.diff.fingerprints import Fingerprints
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.pictures.boxes import Box, Edge
from hloc.pictures.changes import Changes
from hloc.pictures.colours import kind_of
from hloc.pictures.grouping import arrange
from hloc.pictures.labels import is_simple, shown, title_of, written_in_users

_NAME_LETTERS, _SHAPE_LETTERS = 30, 32


@dataclass(frozen=True, slots=True)
class Scene:
    """The contents of a picture.

    Attributes:
        title: title of the picture.
        root: the computation that is drawn, with all its contents.
        boxes: all boxes by number, those of called computations too.
    """

    title: str
    root: Box
    boxes: tuple[Box, ...]


def scene_of(
    computation: Computation,
    members: Collection[Instruction] | None = None,
    changes: Changes | None = None,
) -> Scene:
    """Return the scene of a computation and everything that it calls.

    Args:
        computation: the computation to draw.
        members: the instructions of `computation` to draw, all by default.
        changes: the differences from an earlier module to mark.
    """
    builder = _Builder(computation.module, changes or Changes())
    builder.fingerprints.add(computation.module)
    for called in reachable_computations(computation):
        builder.add(called, members if called is computation else None)
    root = builder.roots[computation]
    root.title = shown(computation.name)
    return Scene(shown(computation.module.name), root, tuple(builder.boxes))


@dataclass(eq=False, slots=True)
class _Builder:
    module: Module
    changes: Changes
    boxes: list[Box] = field(default_factory=list)
    roots: dict[Computation, Box] = field(default_factory=dict)
    costs: dict[Computation, Cost] = field(default_factory=dict)
    fingerprints: Fingerprints = field(default_factory=Fingerprints)

    def add(self, computation: Computation, members: Collection[Instruction] | None) -> None:
        """Create the tree of a computation; those it calls have theirs."""
        self.costs[computation] = computation_cost(computation, self.costs.__getitem__)
        written = written_in_users(computation)
        if members is not None:
            written = {inst: text for inst, text in written.items() if inst not in members}
        drawn = [
            inst
            for inst in post_order(computation)
            if inst not in written
            and (members is None or inst in members)
            and not (members is None and _is_looked_through(inst))
        ]
        leaves = {inst: self._leaf(inst, written) for inst in drawn}
        edges = list(_edges(drawn, leaves, written))
        for inst, box in leaves.items():
            self._note_hidden(inst, box, leaves, written)
        leaves, edges = self._with_removed(computation, leaves, edges)
        root = self._box("computation", computation.name)
        root.kind, root.edges = "group", tuple(edges)
        arrange(root, list(leaves.values()), self._box, self.fingerprints.number)
        self._finish(root)
        self.roots[computation] = root

    def _box(self, sort: str, title: str) -> Box:
        box = Box(len(self.boxes), sort, shown(title))
        self.boxes.append(box)
        return box

    def _leaf(self, inst: Instruction, written: Mapping[Instruction, str]) -> Box:
        box = self._box("instruction", title_of(inst, dict(written)))
        box.inst, box.kind = inst, kind_of(inst.opcode.name)
        box.name = shown(inst.name, _NAME_LETTERS)
        box.shape = shown(inst.shape.text_without_layout, _SHAPE_LETTERS)
        box.symbol = self._symbol(inst)
        if inst.computation.module is self.module:
            cost = instruction_cost(inst, self.costs.__getitem__)
            box.flops, box.bytes = cost.flops + cost.transcendentals, cost.bytes
            opens = inst.opcode.control_flow or inst.is_a("fusion", "map")
            bodies = [c for c in inst.called if opens or not is_simple(c)]
            box.bodies = [self.roots[c] for c in bodies]
            box.status, box.was = self.changes.of.get(inst, ("", ""))
        else:
            box.status = "removed"
        return box

    def _symbol(self, inst: Instruction) -> int:
        """Return a number for what `inst` does: sizes do not count, so that layers are equal."""
        called = tuple(self.fingerprints.computations.get(c, -1) for c in inst.called)
        return self.fingerprints.number(("box", inst.opcode.name, called))

    def _note_hidden(
        self,
        inst: Instruction,
        box: Box,
        leaves: Mapping[Instruction, Box],
        written: Mapping[Instruction, str],
    ) -> None:
        """Set how many operands and users a part of a computation leaves out."""
        operands = sum(_source(o) not in leaves and o not in written for o in inst.operands)
        users = sum(user not in leaves and not _is_looked_through(user) for user in inst.users)
        counts = ((operands, "operand"), (users, "user"))
        parts = [f"{n} {what}{'s' * (n > 1)}" for n, what in counts if n]
        box.hidden = f"not drawn: {', '.join(parts)}" if parts else ""

    def _with_removed(
        self, computation: Computation, leaves: Mapping[Instruction, Box], edges: Sequence[Edge]
    ) -> tuple[dict[Instruction, Box], list[Edge]]:
        """Insert the instructions that only the earlier module has, after their operands."""
        removed = self.changes.removed.get(computation, ())
        for old in dict.fromkeys(inst.computation for inst in removed):
            written = written_in_users(old)
            removed = tuple(inst for inst in removed if inst not in written)
        place = {inst: (float(i), 0) for i, inst in enumerate(leaves)}
        found, more = dict(leaves), list(edges)
        for number, inst in enumerate(removed, 1):
            sources = [self.changes.now.get(operand, operand) for operand in inst.operands]
            known = [place[source] for source in sources if source in place]
            place[inst] = (max(known, default=(-1.0, 0))[0] + 0.5, number)
            found[inst] = self._leaf(inst, {})
            more += [Edge(found[s], found[inst], gone=True) for s in sources if s in found]
            users = [self.changes.now.get(user, user) for user in inst.users]
            more += [Edge(found[inst], found[u], gone=True) for u in users if u in leaves]
        return {inst: found[inst] for inst in sorted(found, key=place.__getitem__)}, more

    def _finish(self, root: Box) -> None:
        """Fill in sums and parents, and lay out every group."""
        order, stack = [], [root]
        while stack:
            box = stack.pop()
            order.append(box)
            for child in box.children:
                child.parent = box
            stack.extend(box.children)
        for box in reversed(order):
            box.add_up()


def _is_looked_through(inst: Instruction) -> bool:
    return inst.is_a("get-tuple-element") and bool(inst.users) and not inst.is_root


def _source(inst: Instruction) -> Instruction:
    while _is_looked_through(inst):
        inst = inst.operands[0]
    return inst


def _edges(
    drawn: Iterable[Instruction],
    leaves: Mapping[Instruction, Box],
    written: Mapping[Instruction, str],
) -> Iterable[Edge]:
    for inst in drawn:
        sources = (o if o in leaves else _source(o) for o in inst.operands if o not in written)
        for source in dict.fromkeys(sources):
            if source in leaves:
                yield Edge(leaves[source], leaves[inst])
        for source in inst.control_predecessors:
            if source in leaves:
                yield Edge(leaves[source], leaves[inst], control=True)
