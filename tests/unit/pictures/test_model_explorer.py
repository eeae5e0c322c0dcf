"""`hloc graph --format=model-explorer`: every module makes a collection that keeps the format."""

import json
from pathlib import Path
from typing import Any

import pytest

from hloc import parse
from hloc.cli import main
from hloc.pictures.model_explorer import model_explorer
from hloc.pictures.selection import picked
from tests.unit.pictures.modules import hostile, small

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.hlo"))

TEXT_LIST = {"key": str, "value": (str, dict)}
NODE = {
    "id": str,
    "label": str,
    "namespace": str,
    "attrs": [TEXT_LIST],
    "incomingEdges": [
        {"sourceNodeId": str, "sourceNodeOutputId": str, "targetNodeInputId": str},
    ],
    "outputsMetadata": [{"id": str, "attrs": [TEXT_LIST]}],
    "subgraphIds": [str],
}
OPTIONAL = {"subgraphIds"}
SCHEMA = {
    "label": str,
    "graphs": [{"id": str, "nodes": [NODE], "groupNodeAttributes": dict}],
}


def check(value: Any, schema: Any, where: str = "") -> None:
    """Assert that `value` has the types of `schema`, and no other keys."""
    if isinstance(schema, list):
        assert isinstance(value, list), where
        for i, item in enumerate(value):
            check(item, schema[0], f"{where}[{i}]")
    elif isinstance(schema, dict):
        assert isinstance(value, dict), where
        assert set(schema) - OPTIONAL <= set(value) <= set(schema), where
        for key, item in value.items():
            check(item, schema[key], f"{where}.{key}")
    else:
        assert isinstance(value, schema), where


def check_links(found: dict[str, Any]) -> None:
    """Assert that ids are unique, and that edges and subgraphs lead to something."""
    graphs = [graph["id"] for graph in found["graphs"]]
    assert len(set(graphs)) == len(graphs)
    for graph in found["graphs"]:
        nodes = {node["id"]: node for node in graph["nodes"]}
        assert len(nodes) == len(graph["nodes"])
        for node in graph["nodes"]:
            assert set(node.get("subgraphIds", ())) <= set(graphs)
            for edge in node["incomingEdges"]:
                outputs = [o["id"] for o in nodes[edge["sourceNodeId"]]["outputsMetadata"]]
                assert edge["sourceNodeOutputId"] in outputs or not outputs


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_keep_the_format(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    assert main(["graph", str(path), "-q", "-o", str(out)]) == 0
    found = json.loads(out.read_text())
    check(found, SCHEMA)
    check_links(found)


def test_hostile_names_are_texts() -> None:
    found = json.loads(model_explorer(picked(hostile())))
    check(found, SCHEMA)


def test_scopes_are_layers_and_calls_lead_to_graphs() -> None:
    module = parse("""HloModule m
body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  ROOT r = (s32[], f32[4]) tuple(i, x) }
cond { c = (s32[], f32[4]) parameter(0)
  ROOT p = pred[] constant(false) }
ENTRY e {
  a = s32[] constant(0)
  b = f32[4] parameter(0)
  n = f32[4] negate(b), metadata={op_name="jit(f)/net//layer/neg" source_file="f.py" source_line=3}
  t = (s32[], f32[4]) tuple(a, n), control-predecessors={b}
  ROOT w = (s32[], f32[4]) while(t), condition=cond, body=body
}""")
    found = json.loads(model_explorer(picked(module)))
    entry = {node["id"]: node for node in found["graphs"][0]["nodes"]}
    assert found["graphs"][0]["id"] == "e"
    assert entry["n"]["namespace"] == "jit(f)/net/layer"
    attrs = {row["key"]: row["value"] for row in entry["n"]["attrs"]}
    assert (attrs["source"], attrs["operations"], attrs["bytes"]) == ("f.py:3", "4", "32")
    assert {"type": "node_ids", "nodeIds": ["b"]} in [row["value"] for row in entry["t"]["attrs"]]
    assert sorted(entry["w"]["subgraphIds"]) == ["body", "cond"]
    assert [o["attrs"][0]["value"] for o in entry["w"]["outputsMetadata"]] == ["s32[]", "f32[4]"]
    body = next(graph for graph in found["graphs"] if graph["id"] == "body")
    (x,) = (node for node in body["nodes"] if node["id"] == "x")
    assert x["incomingEdges"] == [
        {"sourceNodeId": "s", "sourceNodeOutputId": "1", "targetNodeInputId": "0"}
    ]


def test_a_part_of_a_module_has_only_its_edges(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(small().to_text())
    out = tmp_path / "part.txt"
    name = small().entry.root.name
    words = [str(tmp_path / "m.hlo"), name, "-r", "0", "--format=model-explorer", "-q"]
    assert main(["graph", *words, "-o", str(out)]) == 0
    (node,) = json.loads(out.read_text())["graphs"][0]["nodes"]
    assert (node["id"], node["incomingEdges"]) == (name, [])


def test_options_of_pictures_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.hlo").write_text(small().to_text())
    for option in ("--boxes=3", "--diff=m.hlo"):
        assert main(["graph", str(tmp_path / "m.hlo"), option, "-o", str(tmp_path / "o.json")]) == 2
        assert "not for Model Explorer" in capsys.readouterr().err
    assert main(["graph", str(tmp_path / "m.hlo"), "--format=dot"]) == 2
    assert main(["graph", str(tmp_path / "m.hlo"), "--format=dot", "-o", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o").read_text().startswith("digraph")
