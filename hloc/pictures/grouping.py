"""How a computation of thousands of instructions becomes a few boxes that open.

By `op_name` scope, as the user's program is divided; then equal neighbours become one box "×12";
then what is still too many is cut into parts along the order of the instructions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from hloc.ir.instruction import Instruction
from hloc.pictures.labels import shown
from hloc.pictures.layered import Layers, layers

MOST_CHILDREN = 120
"""More boxes than this are cut into parts."""

_DEEPEST_SCOPE = 8
_NEARLY_ALL = 0.8
_MANY_OPERANDS = 16
_LIGHT = (
    "parameter",
    "constant",
    "reshape",
    "bitcast",
    "copy",
    "convert",
    "transpose",
    "broadcast",
)
_SMALLEST_GROUP = 3
_PART = 24
_FEWEST_REPEATS = 3
_LONGEST_PERIOD = 1000
_CANDIDATES = 24
_SAMPLE = 6


@dataclass(eq=False, slots=True)
class Box:
    """An instruction, or a group of boxes.

    Attributes:
        sort: `instruction`, `computation`, `scope`, `repeat` or `part`.
        title: the first line, `maximum(·, 0)`; `name` and `shape` make the second.
        children: what a group opens into.
        bodies: what an instruction opens into, the roots of called computations.
        edges: of a computation: those between its instructions.
        layers: where the children stand.
        symbol: equal for boxes that show the same but for names.
        count: instructions in it; `repeats`: how often its first part occurs.
        status, was: how it differs from an earlier module.
        hidden: what a part of a computation leaves out at its border.
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
        """Take counts, costs and changes from the children."""
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
class _Work:
    """What all steps share: how to make a box, numbers for keys, places in the order."""

    make: Callable[[str, str], Box]
    number: Callable[[Hashable], int]
    order: dict[Box, float]


def arrange(
    root: Box,
    leaves: Sequence[Box],
    make: Callable[[str, str], Box],
    number: Callable[[Hashable], int],
) -> None:
    """Put the instructions of a computation into its root, in groups, and lay out all groups.

    Args:
        root: the box of the computation, with its edges.
        leaves: its instructions, operands before users.
        make: makes an empty box of a sort and title.
        number: gives equal numbers for equal keys.
    """
    work = _Work(make, number, {leaf: float(i) for i, leaf in enumerate(leaves)})
    root.children = _by_scope(leaves, root.edges, work)
    _shorten(root, work)
    _lay_out(root)


# ---------------------------------------------------------------- scopes


def _by_scope(leaves: Sequence[Box], edges: Sequence[Edge], work: _Work) -> list[Box]:
    users = _users(edges)
    paths = _scopes(leaves, users)
    feeders = _feeders(leaves, users)
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


def _feeders(leaves: Sequence[Box], users: dict[Box, list[Box]]) -> dict[Box, Box]:
    """Return what does no more than to hand parameters to one tuple of many operands, with that."""
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
        if leaf.inst.is_a(*_LIGHT) and len(ends) == 1:
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
    metadata = leaf.inst.common.metadata
    if metadata is None or "/" not in metadata.op_name or leaf.inst.is_a("parameter", "constant"):
        return None
    parts = [part for part in shown(metadata.op_name).split("/")[:-1] if part]
    return tuple(parts[:_DEEPEST_SCOPE])


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if not paths:
        return ()
    first, last = min(paths), max(paths)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if size is None else size]


def _tidy(group: Box, work: _Work) -> None:
    """Open small groups, and one that holds nearly all, into their parent; join lines of groups."""
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
        _sort(group, work)


def _sort(group: Box, work: _Work) -> None:
    """Sort the children by the mean place of what is in them, and note that of the group."""
    group.children.sort(key=work.order.__getitem__)
    group.symbol = work.number(("group", *sorted(child.symbol for child in group.children)))
    work.order[group] = sum(work.order[c] for c in group.children) / len(group.children)


# ---------------------------------------------------------------- repeats and parts


def _shorten(root: Box, work: _Work) -> None:
    """In every group: equal neighbours become one box, then what is too much is cut into parts.

    Instructions and groups are looked at apart: a scope is no part of a block between two others.
    """
    stack = [root]
    while stack:
        group = stack.pop()
        groups = [child for child in group.children if child.children]
        single = [child for child in group.children if not child.children]
        if group.sort != "repeat":
            fewer = _with_repeats(groups, work), _with_repeats(single, work)
            if sum(map(len, fewer)) > 1:  # a box with nothing but a box says nothing
                groups, single = fewer
        stack += [box for box in (*groups, *single) if box.children]
        if len(groups) + len(single) > MOST_CHILDREN:
            groups = _in_parts(groups, work)
            single = _in_parts(single, work, MOST_CHILDREN // 2)
        group.children = sorted([*groups, *single], key=work.order.__getitem__)


def _with_repeats(children: list[Box], work: _Work) -> list[Box]:
    """Return the children with each run of equal blocks in a box of its own; long blocks first."""
    return _repeats_of(_repeats_of(children, _SAMPLE, work), 1, work)


def _repeats_of(children: list[Box], sample: int, work: _Work) -> list[Box]:
    """Put runs together that begin with the same `sample` symbols."""
    symbols = [child.symbol for child in children]
    keys = [tuple(symbols[i : i + sample]) for i in range(len(symbols))]
    where: dict[tuple[int, ...], deque[int]] = {}
    for i, key in enumerate(keys):
        where.setdefault(key, deque()).append(i)
    found: list[Box] = []
    i = 0
    while i < len(children):
        places = where[keys[i]]
        while places and places[0] <= i:
            places.popleft()
        period, times = _repeat_at(symbols, i, islice(places, _CANDIDATES))
        if times and period * times >= sample:
            found.append(_repeat(children[i : i + period * times], period, work))
            i += period * times
        else:
            found.append(children[i])
            i += 1
    return found


def _repeat_at(symbols: list[int], start: int, others: Iterable[int]) -> tuple[int, int]:
    """Return period and number of the longest repetition from `start` to `others`, or 0, 0."""
    best = (0, 0)
    for other in others:
        period = other - start
        if period > _LONGEST_PERIOD:
            break
        same = 0
        while other + same < len(symbols) and symbols[start + same] == symbols[other + same]:
            same += 1
        times = same // period + 1
        if times >= _FEWEST_REPEATS and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def _repeat(members: list[Box], period: int, work: _Work) -> Box:
    """Return the box of a repetition; each round of several boxes is a box of its own."""
    times = len(members) // period
    rounds = members
    if period > 1:
        rounds = [
            _group("part", "round", members[i : i + period], work)
            for i in range(0, len(members), period)
        ]
    first, last = rounds[0].title, rounds[-1].title
    if period > 1:
        title = f"block of {sum(c.count for c in members[:period])} instructions"
    else:
        title = first if first == last else f"{shown(first, 22)} … {shown(last, 22)}"
    box = _group("repeat", title, rounds, work)
    box.repeats, box.kind = times, rounds[0].kind
    return box


def _group(sort: str, title: str, children: Iterable[Box], work: _Work) -> Box:
    box = work.make(sort, title)
    box.children = list(children)
    box.add_up()
    _sort(box, work)
    return box


def _in_parts(children: list[Box], work: _Work, most: int = MOST_CHILDREN) -> list[Box]:
    """Return at most `most` boxes: the children, or parts of them in their order."""
    while len(children) > most:
        size = ceil(len(children) / min(most // 2, ceil(len(children) / _PART)))
        pieces = [children[i : i + size] for i in range(0, len(children), size)]
        parts = []
        for number, piece in enumerate(pieces, 1):
            part = _group("part", f"part {number} of {len(pieces)}", piece, work)
            part.children = _in_parts(part.children, work)
            parts.append(part)
        children = parts
    return children


# ---------------------------------------------------------------- layers


def _lay_out(root: Box) -> None:
    """Fill in the layers of every group: an edge counts where its two ends part ways."""
    path: dict[Box, tuple[Box, ...]] = {}
    stack: list[tuple[Box, tuple[Box, ...]]] = [(root, (root,))]
    groups: list[Box] = []
    while stack:
        box, way = stack.pop()
        if box.children:
            groups.append(box)
        else:
            path[box] = way
        stack.extend((child, (*way, child)) for child in box.children)
    pairs: dict[Box, list[tuple[int, int]]] = {group: [] for group in groups}
    number = {child: i for group in groups for i, child in enumerate(group.children)}
    for edge in root.edges:
        a, b = path[edge.source], path[edge.target]
        depth = next((i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p is not q), 0)
        if depth:
            pairs[a[depth - 1]].append((number[a[depth]], number[b[depth]]))
    for group in groups:
        group.layers = layers(len(group.children), pairs[group])
