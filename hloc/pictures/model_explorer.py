"""A module as the graph collection that Model Explorer opens: JSON, a graph for each computation.

Format: `GraphCollection`, `Graph` and `GraphNode` as Model Explorer's documentation of its graph
builder describes them. Scopes of `op_name` are layers, and an instruction that calls a computation
links to its graph.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hloc.analysis.cost import Cost, costs_of, instruction_cost
from hloc.analysis.diff.module_lines import line_of
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.origin import origin_of
from hloc.ir.print_order import instruction_order
from hloc.ir.traversal import reachable_computations
from hloc.pictures.labels import shown
from hloc.pictures.selection import Picked
from hloc.shapes import TupleShape

_LETTERS = 400


def model_explorer(what: Picked) -> str:
    """Return the JSON of the selection, with the graphs of all computations that it calls."""
    module = what.computation.module
    callees = list(reachable_computations(what.computation))
    costs = costs_of(callees)
    order = [c for c in reversed(callees) if c is not what.computation]
    graphs = [
        _graph(computation, costs, what) for computation in (what.computation, *order)
    ]  # the first one is shown initially
    return json.dumps({"label": module.name, "graphs": graphs}, separators=(",", ":"))


def _graph(
    computation: Computation, costs: Mapping[Computation, Cost], what: Picked
) -> dict[str, Any]:
    """Return the graph of a computation; only the picked instructions if it is the picked one."""
    members = what.members if computation is what.computation else None
    drawn = [i for i in instruction_order(computation) if members is None or i in members]
    names = {inst.name for inst in drawn}
    cost = costs[computation]
    return {
        "id": computation.name,
        "nodes": [_node(inst, names, costs) for inst in drawn],
        "groupNodeAttributes": {
            "": {
                "instructions": str(len(computation)),
                "operations": str(cost.flops),
                "bytes": str(cost.bytes),
            }
        },
    }


def _node(inst: Instruction, drawn: set[str], costs: Mapping[Computation, Cost]) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": inst.name,
        "label": inst.opcode.name,
        "namespace": _namespace(inst),
        "attrs": [{"key": key, "value": value} for key, value in _attributes(inst, costs)],
        "incomingEdges": list(_edges(inst, drawn)),
        "outputsMetadata": list(_outputs(inst)),
    }
    if inst.called:
        node["subgraphIds"] = [computation.name for computation in inst.called]
    return node


def _namespace(inst: Instruction) -> str:
    """Return the scopes of the `op_name`, without its last part, which names the operation."""
    return "/".join(filter(None, inst.op_name.split("/")[:-1]))


def _attributes(inst: Instruction, costs: Mapping[Computation, Cost]) -> Iterator[tuple[str, Any]]:
    yield "text", shown(line_of(inst).text(), _LETTERS)
    if inst.op_name:
        yield "op_name", inst.op_name
    source = origin_of(inst)
    if source:
        yield "source", source
    cost = instruction_cost(inst, costs.__getitem__)
    yield "operations", str(cost.flops)
    yield "bytes", str(cost.bytes)
    if inst.is_root:
        yield "root", "true"
    if inst.control_predecessors:
        before = [predecessor.name for predecessor in inst.control_predecessors]
        yield "control predecessors", {"type": "node_ids", "nodeIds": before}


def _edges(inst: Instruction, drawn: set[str]) -> Iterator[dict[str, str]]:
    for number, operand in enumerate(inst.operands):
        if operand.name in drawn:
            element = inst.attributes.index if inst.is_a("get-tuple-element") else 0
            yield {
                "sourceNodeId": operand.name,
                "sourceNodeOutputId": str(element),
                "targetNodeInputId": str(number),
            }


def _outputs(inst: Instruction) -> Iterator[dict[str, Any]]:
    """Yield shape and size of the result, or of each element of a tuple, counted from 0."""
    shape = inst.shape
    for number, part in enumerate(shape.elements if isinstance(shape, TupleShape) else (shape,)):
        rows = {"shape": part.text_without_layout, "bytes": str(part.size_bytes)}
        attrs = [{"key": key, "value": value} for key, value in rows.items()]
        yield {"id": str(number), "attrs": attrs}
