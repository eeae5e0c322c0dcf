"""Boxes by `op_name` scope, the structure of the user's program."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.ir.instruction import Instruction
from hloc.pictures.boxes import Box, Edge, Work, put_in_order
from hloc.pictures.labels import shown

_DEEPEST_SCOPE = 8
_NEARLY_ALL = 0.8
_MANY_OPERANDS = 16
_SMALLEST_GROUP = 3


def by_scope(leaves: Sequence[Box], edges: Sequence[Edge], work: Work) -> list[Box]:
    """Return boxes of scopes, and the instructions outside of all scopes, in their order."""
    users = _users(edges)
    paths = _scopes(leaves, users)
    feeders = _forwarders(leaves, users)
    top = Box(-1, "scope", "")
    groups: dict[tuple[str, ...], Box] = {(): top}
    for feeder in dict.fromkeys(feeders.values()):
        groups[(feeder.name,)] = work.make("part", f"operands of {feeder.name}")
        top.children.append(groups[(feeder.name,)])
    for leaf in leaves:
        path = (feeders[leaf].name,) if leaf in feeders else paths[leaf]
        for depth in range(1, len(path) + 1):
            if path[:depth] not in groups:
                above = path[depth - 2] if depth > 1 and path[depth - 1].isdigit() else ""
                group = work.make("scope", f"{above}/{path[depth - 1]}".strip("/"))
                groups[path[:depth]] = group
                groups[path[: depth - 1]].children.append(group)
        groups[path].children.append(leaf)
    for path in sorted(groups, key=len, reverse=True):
        _tidy(groups[path], work)
    return top.children


def _users(edges: Sequence[Edge]) -> dict[Box, list[Box]]:
    users: dict[Box, list[Box]] = {}
    for edge in edges:
        users.setdefault(edge.source, []).append(edge.target)
    return users


def _is_light(inst: Instruction) -> bool:
    moves = inst.opcode.data_movement and len(inst.operands) == 1
    return moves or inst.opcode.nop or inst.is_a("convert")


def _forwarders(leaves: Sequence[Box], users: dict[Box, list[Box]]) -> dict[Box, Box]:
    """Return the instructions that only forward parameters to one large tuple, with that tuple."""
    operands: dict[Box, int] = {}
    for targets in users.values():
        for target in targets:
            operands[target] = operands.get(target, 0) + 1
    found: dict[Box, Box] = {}
    for leaf in reversed(leaves):
        assert leaf.inst is not None
        ends = {
            found.get(user, user if operands[user] > _MANY_OPERANDS else None)
            for user in users.get(leaf, ())
        }
        if _is_light(leaf.inst) and len(ends) == 1:
            (end,) = ends
            if end is not None:
                found[leaf] = end
    return found


def _scopes(leaves: Sequence[Box], users: dict[Box, list[Box]]) -> dict[Box, tuple[str, ...]]:
    """Return the scope of each instruction: its own, that of all its users, or of its operands."""
    operands: dict[Box, list[Box]] = {}
    found: dict[Box, tuple[str, ...]] = {}
    for leaf in reversed(leaves):
        own = _own_scope(leaf)
        users_scopes = [found[user] for user in users.get(leaf, ()) if user in found]
        for user in users.get(leaf, ()):
            operands.setdefault(user, []).append(leaf)
        if own is not None or users_scopes:
            found[leaf] = _common(users_scopes) if own is None else own
    for leaf in leaves:
        if leaf not in found:
            found[leaf] = _common([found[o] for o in operands.get(leaf, ()) if o in found])
    return found


def _own_scope(leaf: Box) -> tuple[str, ...] | None:
    assert leaf.inst is not None
    if "/" not in leaf.inst.op_name or leaf.inst.is_a("parameter", "constant"):
        return None
    parts = [part for part in shown(leaf.inst.op_name).split("/")[:-1] if part]
    return tuple(parts[:_DEEPEST_SCOPE])


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if not paths:
        return ()
    first, last = min(paths), max(paths)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if size is None else size]


def _tidy(group: Box, work: Work) -> None:
    """Dissolve small groups, and one with nearly all boxes, into the parent; merge chains."""
    total = sum(child.count for child in group.children)
    scopes = sum(child.sort == "scope" for child in group.children)
    children: list[Box] = []
    for child in group.children:
        if child.sort != "scope":
            children.append(child)
        elif child.count < _SMALLEST_GROUP or (scopes == 1 and child.count > _NEARLY_ALL * total):
            children += child.children
        elif [c.sort for c in child.children] == ["scope"]:
            (inner,) = child.children
            inner.title = f"{child.title}/{inner.title}"
            children.append(inner)
        else:
            children.append(child)
    group.children = children
    group.add_up()
    if children:
        put_in_order(group, work)
