"""Graphviz text of a picture."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.pictures.colours import STATUS, XLA
from hloc.pictures.places import Node, lines_of, opened, place, ways
from hloc.pictures.scene import Scene


def dot(scene: Scene, most: int) -> str:
    """Return `scene`, expanded to at most `most` boxes, as a `digraph`."""
    root = opened(scene, most)
    place(root)
    lines = [
        f"digraph {_quoted(scene.title)} {{",
        '  graph [fontname="Helvetica", labeljust=l];',
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=11];',
        *_inside(root),
    ]
    for way in ways(root):
        a, b = _name(way.source), _name(way.target)
        style = "dashed" if way.edge.gone else "dotted" if way.edge.control else "solid"
        lines.append(f"  {a} -> {b} [style={style}];")
    return "\n".join([*lines, "}", ""])


def _inside(root: Node) -> Iterator[str]:
    """Yield the lines of nodes and, for open ones, of clusters around theirs; without recursion."""
    stack: list[Node | str] = list(reversed(root.nodes))
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
            continue
        title, small = lines_of(node.box)
        if node.is_open:
            yield f"  subgraph cluster_{_name(node)} {{ label={_quoted(title)}; style=rounded;"
            stack.append("  }")
            stack.extend(reversed(node.nodes))
            continue
        colour = XLA[node.box.kind]
        border = STATUS.get(node.box.status, colour.border)
        yield (
            f"  {_name(node)} [label={_quoted(title, small)}, fillcolor={_quoted(colour.fill)}, "
            f"color={_quoted(border)}, fontcolor={_quoted(colour.text)}];"
        )


def _name(node: Node) -> str:
    return "n" + "_".join(map(str, node.key))


def _quoted(*lines: str) -> str:
    """Return lines as one string of the dot language."""
    texts = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(texts) + '"'
