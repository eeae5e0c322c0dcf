"""Layout of a static picture: open boxes, sizes, coordinates and edge routes.

The HTML page does the same in the browser (`page/layout.js`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from hloc.lazy_dataclass import dataclass
from hloc.pictures.boxes import Box, Edge
from hloc.pictures.layered import Layers, places
from hloc.pictures.scene import Scene

BOXES_AT_START = 150
"""Limit on the boxes shown initially."""

TITLE_LETTER, SMALL_LETTER = 7.3, 6.65
_MARGIN, _LINE, _GAP, _ROW_GAP, _HEAD, _PAD = 18.0, 16.0, 22.0, 34.0, 26.0, 14.0
_LEAST_WIDTH, _SIGN = 56.0, 22.0


@dataclass(eq=False, slots=True)
class Node:
    """A box in a picture; `nodes` is what it expands into.

    Attributes:
        x, y: the upper left corner in the drawing, once `placed` is done.
        key: numbers of the boxes on the path to it.
        index: its number among the boxes of its parent.
        rows: top and bottom of the rows inside; `middles`: centres of boxes and bends, from the
            left.
        row_of, chains: the row of every box and bend, and the chain between two boxes.
    """

    box: Box
    parent: Node | None = None
    key: tuple[int, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    index: int = 0
    rows: list[tuple[float, float]] = field(default_factory=list)
    middles: list[float] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)
    chains: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return bool(self.nodes)

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


def content(box: Box) -> tuple[Sequence[Box], Layers | None]:
    """Return what a box expands into; several called computations are placed side by side."""
    if box.children:
        return box.children, box.layers
    if len(box.bodies) == 1:
        return box.bodies[0].children, box.bodies[0].layers
    return box.bodies, Layers(len(box.bodies), (tuple(range(len(box.bodies))),), ())


def lines_of(box: Box) -> tuple[str, str]:
    """Return the two lines in a box; dots indicate operands or users that are not drawn."""
    if box.inst is not None:
        return box.title, f"{box.shape}  {box.name}{' …' if box.hidden else ''}"
    if box.sort == "computation":
        return box.title, f"{box.count:,} instructions"
    title = f"{box.title} ×{box.repeats}" if box.repeats else box.title
    return title, f"{box.count:,} instructions"


# ---------------------------------------------------------------- what is open


def opened(scene: Scene, most: int = BOXES_AT_START) -> Node:
    """Return the initial view: expanded level by level, small groups first, up to `most` boxes.

    Scopes open before computations. Parts open if most of them can, fusions if there is
    ample room, repeated blocks in small modules only.
    """
    root = Node(scene.root, key=(scene.root.number,))
    _open(root)
    visible = len(root.nodes)
    level = root.nodes
    while level:
        deeper: list[Node] = []
        parts = sum(len(node.box.children) for node in level if node.box.sort == "part")
        room = {
            _PART: most if visible + parts / 2 < most else 0,
            _FUSION: most // 3,
            _REPEAT: most if scene.root.count <= most // 3 else 0,
        }
        for node in sorted(level, key=_eagerness):
            more = len(content(node.box)[0])
            if more and visible + more <= room.get(_eagerness(node)[0], most):
                _open(node)
                visible += more
                deeper += node.nodes
        level = deeper
    return root


_SCOPE, _CALL, _PART, _FUSION, _REPEAT = range(5)


def _eagerness(node: Node) -> tuple[int, int]:
    """Return the priority for expanding a box, lowest first."""
    box = node.box
    if box.sort == "part":
        return _PART, 0
    if box.inst is None:
        return _REPEAT if box.repeats else _SCOPE, box.count
    return _FUSION if box.inst.is_a("fusion") else _CALL, box.count


def _open(node: Node) -> None:
    node.nodes = [
        Node(child, node, (*node.key, child.number), index=i)
        for i, child in enumerate(content(node.box)[0])
    ]


# ---------------------------------------------------------------- sizes and places


def place(root: Node) -> None:
    """Set the size and position of every node, the root at 0, 0."""
    order = list(all_nodes(root))
    for node in reversed(order):
        _size(node)
    for node in order:  # parents first
        if node.parent is not None:
            node.x += node.parent.x
            node.y += node.parent.y
        node.rows = [(top + node.y, bottom + node.y) for top, bottom in node.rows]
        node.middles = [middle + node.x for middle in node.middles]


def all_nodes(root: Node) -> Iterator[Node]:
    """Yield the nodes, each before its contents."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.nodes))


def _size(node: Node) -> None:
    """Set the size of a node, and the positions of its contents relative to its corner."""
    if not node.nodes:
        title, small = lines_of(node.box)
        sign = _SIGN if content(node.box)[0] else 0.0
        widths = (len(title) * TITLE_LETTER + sign, len(small) * SMALL_LETTER)
        node.width = max(_LEAST_WIDTH, *(width + _MARGIN for width in widths))
        node.height = _LINE * 2 + 8
        return
    _, found = content(node.box)
    assert found is not None
    node.row_of = found.row_of()
    node.chains = {(chain[0], chain[-1]): chain for chain in found.chains}
    head = _HEAD if node.parent is not None else 0.0
    node.middles = places(found, [inside.width for inside in node.nodes], _GAP)
    node.middles = [middle + _PAD for middle in node.middles]
    top = head + _PAD
    for row in found.rows:
        height = max((node.nodes[i].height for i in row if i < found.count), default=0.0)
        for i in row:
            if i < found.count:
                inside = node.nodes[i]
                inside.x = node.middles[i] - inside.width / 2
                inside.y = top + (height - inside.height) / 2
        node.rows.append((top, top + height))
        top += height + _ROW_GAP
    right = max(inside.x + inside.width for inside in node.nodes)
    least = len(lines_of(node.box)[0]) * TITLE_LETTER + _MARGIN + 40
    node.width, node.height = max(right + _PAD, least), top - _ROW_GAP + _PAD


# ---------------------------------------------------------------- edges


@dataclass(frozen=True, slots=True)
class Way:
    """An edge in the drawing: SVG path data, and the edge."""

    path: str
    source: Node
    target: Node
    edge: Edge
    is_long: bool


def ways(root: Node) -> list[Way]:
    """Return the edges between all visible boxes; those within a closed box are not drawn."""
    found: list[Way] = []
    for node in all_nodes(root):
        for computation, visible in _instances(node):
            found += _ways_of(computation, visible)
    return found


def _instances(node: Node) -> Iterator[tuple[Box, Node]]:
    """Yield each computation with the node that it is opened in."""
    if node.nodes and node.box.sort == "computation":
        yield node.box, node
    elif node.nodes and len(node.box.bodies) == 1:
        yield node.box.bodies[0], node


def _ways_of(computation: Box, home: Node) -> Iterator[Way]:
    visible = {node.box: node for node in _within(home)}
    pairs: dict[tuple[Node, Node], Edge] = {}
    for edge in computation.edges:
        source, target = _seen(edge.source, visible), _seen(edge.target, visible)
        if source is not target:
            pairs.setdefault((source, target), edge)
    ports = _ports(list(pairs))
    for (source, target), edge in pairs.items():
        path, is_long = _path(source, target, home, ports[source, target])
        yield Way(path, source, target, edge, is_long)


def _within(home: Node) -> Iterator[Node]:
    """Yield the nodes of one computation, without those of called computations."""
    stack = list(home.nodes)
    while stack:
        node = stack.pop()
        yield node
        if node.box.children:
            stack.extend(node.nodes)


def _seen(box: Box, visible: dict[Box, Node]) -> Node:
    while box not in visible:
        assert box.parent is not None
        box = box.parent
    return visible[box]


def _ports(pairs: list[tuple[Node, Node]]) -> dict[tuple[Node, Node], float]:
    """Return where each edge ends at the top of its target, in the order of the sources."""
    incoming: dict[Node, list[Node]] = {}
    for source, target in pairs:
        incoming.setdefault(target, []).append(source)
    found = {}
    for target, sources in incoming.items():
        sources.sort(key=lambda source: source.middle)
        step = min(14.0, target.width * 0.7 / len(sources))
        for i, source in enumerate(sources):
            found[source, target] = target.middle + (i - (len(sources) - 1) / 2) * step
    return found


def _path(source: Node, target: Node, home: Node, port: float) -> tuple[str, bool]:
    """Return the route from the bottom of `source` to the top of `target`."""
    a, b = _parting(source, target, home)
    parent = a.parent
    assert parent is not None
    row, i, j = parent.row_of, a.index, b.index
    if row[i] >= row[j]:  # an edge of a cycle, or between boxes of one row
        return _curve(source.middle, source.bottom, port, target.y), True
    chain = parent.chains[i, j]
    x, parts = source.middle, [f"M{source.middle:.1f} {source.bottom:.1f}"]
    y = parent.rows[row[i]][1]
    if y - source.bottom > 0.1:
        parts.append(f"V{y:.1f}")
    for bend in chain[1:-1]:
        top, bottom = parent.rows[row[bend]]
        parts.append(_step(x, y, parent.middles[bend], top))
        x, y = parent.middles[bend], bottom
        parts.append(f"V{y:.1f}")
    parts.append(_step(x, y, port, parent.rows[row[j]][0]))
    if target.y - parent.rows[row[j]][0] > 0.1:
        parts.append(f"V{target.y:.1f}")
    return "".join(parts), row[j] - row[i] > len(chain) - 1


def _parting(source: Node, target: Node, home: Node) -> tuple[Node, Node]:
    """Return the two boxes of one parent that contain the ends of an edge."""
    above: dict[Node | None, Node] = {}
    node: Node | None = source
    while node is not None and node is not home:
        above[node.parent] = node
        node = node.parent
    other = target
    while other.parent not in above:
        assert other.parent is not None
        other = other.parent
    return above[other.parent], other


def _step(x: float, y: float, to_x: float, to_y: float) -> str:
    if abs(x - to_x) < 0.5:
        return f"V{to_y:.1f}"
    half = (y + to_y) / 2
    return f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    return f"M{x:.1f} {y:.1f}C{x:.1f} {y + 60:.1f} {to_x:.1f} {to_y - 60:.1f} {to_x:.1f} {to_y:.1f}"
