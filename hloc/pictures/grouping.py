"""Group a computation of thousands of instructions into a few expandable boxes.

Groups by `op_name` scope, then merges repeated neighbours into one box "×12", then splits groups
that are still too large into parts in instruction order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from math import ceil

from hloc.pictures.boxes import Box, Work, group_of
from hloc.pictures.layered import layers
from hloc.pictures.repeats import with_repeats
from hloc.pictures.scopes import by_scope

MOST_CHILDREN = 120
"""Maximum number of boxes of a group; larger groups are split into parts."""

_PART = 24
_MOST_ROUNDS = 40


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
    work = Work(make, number, {leaf: float(i) for i, leaf in enumerate(leaves)})
    root.children = by_scope(leaves, root.edges, work)
    _shorten(root, work)
    _lay_out(root)


def _shorten(root: Box, work: Work) -> None:
    """In every group, merge equal neighbours into one box, then split what is still too large.

    Instructions and groups are treated separately: a scope is not part of a repeated block.
    """
    stack = [root]
    while stack:
        group = stack.pop()
        groups = [child for child in group.children if child.children]
        single = [child for child in group.children if not child.children]
        if group.sort != "repeat":
            fewer = with_repeats(groups, work), with_repeats(single, work)
            if sum(map(len, fewer)) > 1:
                groups, single = fewer
            elif group is not root:  # a group of one box adds nothing
                _turn_into(group, *fewer[0], *fewer[1])
        stack += [box for box in (*groups, *single) if box.children]
        if len(groups) + len(single) > MOST_CHILDREN:
            groups = _in_parts(groups, work)
            single = _in_parts(single, work, MOST_CHILDREN // 2)
        group.children = sorted([*groups, *single], key=work.order.__getitem__)


def _turn_into(group: Box, only: Box) -> None:
    """Turn `group` into the repetition that is its only child."""
    if only.sort == "repeat":
        group.sort, group.repeats, group.kind = only.sort, only.repeats, only.kind
        group.children = only.children


def _in_parts(children: list[Box], work: Work, most: int = MOST_CHILDREN) -> list[Box]:
    """Return at most `most` boxes: the children, or parts of them in their order."""
    while len(children) > most:
        size = ceil(len(children) / min(most // 2, ceil(len(children) / _PART)))
        pieces = [children[i : i + size] for i in range(0, len(children), size)]
        parts = []
        for number, piece in enumerate(pieces, 1):
            part = group_of("part", f"part {number} of {len(pieces)}", piece, work)
            part.children = _in_parts(part.children, work)
            parts.append(part)
        children = parts
    return children


def _lay_out(root: Box) -> None:
    """Compute the layers of every group: operands before users, cycles of groups dissolved."""
    for last in (*[False] * _MOST_ROUNDS, True):
        pairs = _pairs(root)
        circles = [box for box, edges in pairs.items() if _sort(box, edges)]
        if last or not any([_dissolve_one(box, pairs[box]) for box in circles]):
            break
    for group, edges in pairs.items():
        number = {child: i for i, child in enumerate(group.children)}
        group.layers = layers(len(number), [(number[a], number[b]) for a, b in edges])


def _pairs(root: Box) -> dict[Box, list[tuple[Box, Box]]]:
    """Return, for every group, the edges between different children of it."""
    path: dict[Box, tuple[Box, ...]] = {}
    stack: list[tuple[Box, tuple[Box, ...]]] = [(root, (root,))]
    found: dict[Box, list[tuple[Box, Box]]] = {}
    while stack:
        box, way = stack.pop()
        if box.children:
            found[box] = []
        else:
            path[box] = way
        stack.extend((child, (*way, child)) for child in box.children)
    for edge in root.edges:
        a, b = path[edge.source], path[edge.target]
        depth = next((i for i, (p, q) in enumerate(zip(a, b, strict=False)) if p is not q), 0)
        if depth:
            found[a[depth - 1]].append((a[depth], b[depth]))
    return {group: list(dict.fromkeys(edges)) for group, edges in found.items()}


def _sort(group: Box, edges: Sequence[tuple[Box, Box]]) -> bool:
    """Put operands before users, otherwise in the order given; return whether there is a cycle."""
    children = group.children
    place = {child: i for i, child in enumerate(children)}
    users: dict[Box, list[Box]] = {child: [] for child in children}
    waiting = dict.fromkeys(children, 0)
    for a, b in edges:
        users[a].append(b)
        waiting[b] += 1
    ready = [i for i, child in enumerate(children) if not waiting[child]]
    found: dict[Box, None] = {}
    while ready:
        child = children[heappop(ready)]
        found[child] = None
        for user in users[child]:
            waiting[user] -= 1
            if not waiting[user]:
                heappush(ready, place[user])
    has_circle = len(found) < len(children)
    group.children = [*found, *(child for child in children if child not in found)]
    return has_circle


def _dissolve_one(group: Box, edges: Sequence[tuple[Box, Box]]) -> bool:
    """Dissolve the smallest group of a cycle into `group`; False if there is no room."""
    left = set(group.children)
    for backward in (False, True):  # what nothing reaches is in no cycle
        _strip(left, [(b, a) if backward else (a, b) for a, b in edges])
    inside = [child for child in group.children if child in left and child.children]
    smallest = min(inside, key=lambda child: len(child.children), default=None)
    if smallest is None or len(group.children) + len(smallest.children) > 2 * MOST_CHILDREN:
        return False
    at = group.children.index(smallest)
    group.children[at : at + 1] = smallest.children
    if group.repeats:  # its repetitions are no longer equal
        group.sort, group.repeats = "part", 0
    return True


def _strip(left: set[Box], edges: Sequence[tuple[Box, Box]]) -> None:
    """Remove, repeatedly, what no edge from `left` leads to."""
    users: dict[Box, list[Box]] = {}
    waiting = dict.fromkeys(left, 0)
    for a, b in edges:
        if a in left and b in left:
            users.setdefault(a, []).append(b)
            waiting[b] += 1
    ready = [box for box in waiting if not waiting[box]]
    while ready:
        box = ready.pop()
        left.discard(box)
        for user in users.get(box, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
