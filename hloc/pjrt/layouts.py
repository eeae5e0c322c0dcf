"""Layouts of arrays: row-major unless a program requests another order of dimensions.

JAX writes the layouts and memories that a program requests as attributes of its main function,
which XLA's conversion to HLO drops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

from hloc.formats.runtime import message_class
from hloc.lazy_dataclass import dataclass
from hloc.pjrt.abi import structure
from hloc.pjrt.boundary import Leaf, boundary_of
from hloc.pjrt.native import keep, text, words, words_at

Order: TypeAlias = tuple[int, ...]
"""Dimensions from minor to major."""

MAX_RANK = 64

_LAYOUT, _MEMORY = "mhlo.layout_mode", "mhlo.memory_kind"


@cache
def layout_address(order: Order) -> int:
    """Return the address of the unique `PJRT_Layouts_MemoryLayout` with that order."""
    rank = len(order)
    if order == row_major(rank):
        size = ctypes.sizeof(structure("PJRT_Layouts_MemoryLayout"))
        return row_major_layouts() + rank * size
    row = structure("PJRT_Layouts_MemoryLayout")()
    _fill(row, order)
    return keep(row)


@cache
def row_major_layouts() -> int:
    """Return the address of the row-major layouts, by rank."""
    rows = (structure("PJRT_Layouts_MemoryLayout") * MAX_RANK)()
    for rank, row in enumerate(rows):
        _fill(row, row_major(rank))
    return keep(rows)


def _fill(row: Any, order: Order) -> None:
    name = "{" + ",".join(map(str, order)) + "}"
    row.text, row.text_size = text(name), len(name)
    row.minor_to_major, row.rank = keep(words(order)), len(order)


def row_major(rank: int) -> Order:
    """Return the row-major order."""
    return tuple(range(rank - 1, -1, -1))


def order_at(address: int) -> Order:
    """Return the order of a layout."""
    row = structure("PJRT_Layouts_MemoryLayout").from_address(address)
    return tuple(words_at(row.minor_to_major, row.rank))


# ---------------------------------------------------------------- requests of a program


@dataclass(frozen=True, slots=True)
class Wishes:
    """The requests of the main function, by number of the leaf.

    Attributes:
        parameters, results: orders other than row-major.
        memories: memory kinds of results.
    """

    parameters: dict[int, Order]
    results: dict[int, Order]
    memories: dict[int, str]


def wishes_of(code: bytes) -> Wishes:
    """Return the layouts and memories that StableHLO requests; most programs request none."""
    if _LAYOUT.encode() not in code and _MEMORY.encode() not in code:
        return Wishes({}, {}, {})
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context() as context:
        module = stablehlo.deserialize_portable_artifact(context, code)
        main = ir.SymbolTable(module.operation)["main"]
        taken, given = list(main.arg_attrs), list(main.attributes["res_attrs"])
        return Wishes(
            _orders(taken),
            _orders(given),
            {i: ir.StringAttr(row[_MEMORY]).value for i, row in enumerate(given) if _MEMORY in row},
        )


def _orders(attributes: list[Any]) -> dict[int, Order]:
    from jaxlib.mlir import ir

    result = {}
    for i, row in enumerate(attributes):
        name = ir.StringAttr(row[_LAYOUT]).value if _LAYOUT in row else "default"
        if name.startswith("{"):
            order = tuple(int(n) for n in name.partition(":")[0].strip("{}").split(",") if n)
            if order != row_major(len(order)):
                result[i] = order
    return result


def with_layouts(proto: bytes, wishes: Wishes) -> bytes:
    """Return a serialized HloModuleProto whose entry has the requested layouts.

    Other leaves are row-major, even if the conversion from StableHLO chose another layout, as for
    transposes. Copies at the boundary of the entry change the layout.
    """
    boundary = boundary_of(proto)
    parameters = _changes(boundary.parameters, wishes.parameters)
    results = _changes(boundary.results, wishes.results)
    if not parameters and not results:
        return proto
    module = message_class("HloModuleProto").FromString(proto)
    shape = module.host_program_shape
    entry = next(c for c in module.computations if c.id == module.entry_computation_id)
    for number, order in parameters.items():
        inst = next(
            i
            for i in entry.instructions
            if i.opcode == b"parameter" and i.parameter_number == number
        )
        users = [i for i in entry.instructions if inst.id in i.operand_ids]
        old, new = inst.id, _copied(entry, inst.id)
        for user in users:
            _replace(user.operand_ids, old, new)
        _set_order(_by_id(entry, old).shape, order)
        _set_order(shape.parameters[number], order)
        if entry.root_id == old:
            entry.root_id = new
    if results and shape.result.tuple_shapes:
        _end_with_tuple(entry)
    for i, order in results.items():
        if not shape.result.tuple_shapes:
            new = entry.root_id = _copied(entry, entry.root_id)
            _set_order(shape.result, order)
        else:
            root = _by_id(entry, entry.root_id)
            new = _copied(entry, root.operand_ids[i])
            root = _by_id(entry, entry.root_id)
            root.operand_ids[i] = new
            _set_order(root.shape.tuple_shapes[i], order)
            _set_order(shape.result.tuple_shapes[i], order)
        _set_order(_by_id(entry, new).shape, order)
    data: bytes = module.SerializeToString(deterministic=True)
    return data


def _changes(leaves: Sequence[Leaf], wished: dict[int, Order]) -> dict[int, Order]:
    """Return the requested order of each leaf that has another."""
    wanted = {i: wished.get(i, row_major(len(leaf.dims))) for i, leaf in enumerate(leaves)}
    return {
        i: order
        for i, order in wanted.items()
        if order != (leaves[i].minor_to_major or row_major(len(leaves[i].dims)))
    }


def _end_with_tuple(entry: Any) -> None:
    """Make the root a tuple instruction, so that each result is a separate instruction."""
    root = _by_id(entry, entry.root_id)
    if root.opcode == b"tuple":
        return
    parts = []
    for i, shape in enumerate(root.shape.tuple_shapes):
        part = _added(entry, b"get-tuple-element", shape, [root.id])
        part.tuple_index = i
        parts.append(part.id)
    entry.root_id = _added(entry, b"tuple", root.shape, parts).id


def _added(entry: Any, opcode: bytes, shape: Any, operands: list[int]) -> Any:
    """Return a new instruction at the end of a computation."""
    inst = entry.instructions.add()
    inst.id = max(other.id for other in entry.instructions) + 1
    inst.name = b"%s.in_order.%d" % (opcode, inst.id & 0xFFFFFFFF)
    inst.opcode = opcode
    inst.shape.CopyFrom(shape)
    inst.operand_ids.extend(operands)
    return inst


def _by_id(entry: Any, number: int) -> Any:
    return next(inst for inst in entry.instructions if inst.id == number)


def _copied(entry: Any, number: int) -> int:
    """Insert a copy of an instruction after it; return the id of the copy."""
    place = next(i for i, inst in enumerate(entry.instructions) if inst.id == number)
    inst = entry.instructions[place]
    copy = type(inst)()
    copy.id = max(other.id for other in entry.instructions) + 1
    copy.name = b"%s.in_order.%d" % (inst.name, copy.id & 0xFFFFFFFF)
    copy.opcode = b"copy"
    copy.shape.CopyFrom(inst.shape)
    copy.operand_ids.append(inst.id)
    entry.instructions.insert(place + 1, copy)
    result: int = copy.id
    return result


def _set_order(shape: Any, order: Order) -> None:
    del shape.layout.minor_to_major[:]
    shape.layout.minor_to_major.extend(order)


def _replace(numbers: Any, old: int, new: int) -> None:
    numbers[:] = [new if number == old else number for number in numbers]
