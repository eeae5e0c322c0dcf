"""Group a computation of thousands of instructions into a few expandable boxes.

Groups by `op_name` scope, then merges repeated neighbours into one box "×12", then cuts what is
still too large into parts in instruction order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import ceil

from hloc.pictures.boxes import Box, Work, group_of
from hloc.pictures.layered import layers
from hloc.pictures.repeats import with_repeats
from hloc.pictures.scopes import by_scope

MOST_CHILDREN = 120
"""Larger groups are cut into parts."""

_PART = 24


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
    """In every group: equal neighbours become one box, then what is too much is cut into parts.

    Instructions and groups are looked at apart: a scope is no part of a block between two others.
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
                _become(group, *fewer[0], *fewer[1])
        stack += [box for box in (*groups, *single) if box.children]
        if len(groups) + len(single) > MOST_CHILDREN:
            groups = _in_parts(groups, work)
            single = _in_parts(single, work, MOST_CHILDREN // 2)
        group.children = sorted([*groups, *single], key=work.order.__getitem__)


def _become(group: Box, only: Box) -> None:
    """Make `group` the repetition that is all it holds."""
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
