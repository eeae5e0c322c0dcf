"""Operations of StableHLO whose structure differs from HLO's: calls, loops, branches, constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hloc.dtypes import component_of
from hloc.ir.attribute_fields import quoted
from hloc.ir.attributes import RawText
from hloc.ir.computation import Computation
from hloc.literal import literal_of
from hloc.ops.rows.custom_call import API_VERSIONS
from hloc.shapes import ArrayShape, Layout, Shape, TupleShape
from hloc.stablehlo.block_builder import BlockBuilder
from hloc.stablehlo.chlo import Value
from hloc.stablehlo.codecs import BadAttribute, integers
from hloc.stablehlo.tree import Dense, Operation, Record, Symbol

_API_VERSIONS = ("API_VERSION_UNSPECIFIED", *API_VERSIONS)
MAX_SPLAT = 1 << 16
"""Maximum number of elements of a splat constant; larger ones are broadcasts of a scalar."""


def _constant(block: BlockBuilder, operation: Operation) -> None:
    value = operation.attributes.get("value")
    if not isinstance(value, Dense) or not isinstance(value.shape, ArrayShape):
        block.fail("a constant needs value = dense<...>")
    array = value.values
    if array.size > MAX_SPLAT and not any(array.strides):
        scalar = literal_of(np.array(array[(0,) * array.ndim]), value.shape.dtype)
        inst = block.add("constant", scalar.shape, literal=scalar)
        block.results(operation, block.add("broadcast", value.shape, (inst,), dimensions=()))
        return
    literal = literal_of(array, value.shape.dtype)
    block.results(operation, block.add("constant", literal.shape, literal=literal))


def _broadcast_in_dim(block: BlockBuilder, operation: Operation) -> None:
    """Add a broadcast; a reshape first removes dimensions of size 1 that grow."""
    (operand,) = block.operands(operation, 1)
    shape, source = block.array_shape(operation), operand.shape
    try:
        dims = integers(operation.attributes.get("broadcast_dimensions"))
    except BadAttribute as fault:
        block.fail(f"broadcast_dimensions: {fault}")
    if not isinstance(source, ArrayShape):
        block.fail("expected a tensor")
    if len(dims) != source.rank or any(not 0 <= d < shape.rank for d in dims):
        block.fail(f"dims {list(dims)} do not map {source} into {shape}")
    grown = [i for i, d in enumerate(dims) if source.dims[i] == 1 and shape.dims[d] != 1]
    if grown:
        kept = [i for i in range(source.rank) if i not in grown]
        reshaped = ArrayShape(source.dtype, tuple([source.dims[i] for i in kept]))
        operand = block.add("reshape", reshaped, (operand,))
        dims = tuple([dims[i] for i in kept])
    block.results(operation, block.add("broadcast", shape, (operand,), dimensions=dims))


def _with_spread_scalars(
    opcode: str, positions: tuple[int, ...], block: BlockBuilder, operation: Operation
) -> None:
    """Add `opcode` with scalars at `positions` broadcast to the result."""
    operands = block.checked_operands(operation, 3)
    shape = block.array_shape(operation)
    for position in positions:
        scalar = operands[position]
        if shape.dims and isinstance(scalar.shape, ArrayShape) and not scalar.shape.dims:
            wide = shape.with_dtype(scalar.shape.dtype)
            operands[position] = block.add("broadcast", wide, (scalar,), dimensions=())
    block.results(operation, block.add(opcode, shape, operands))


def _while(block: BlockBuilder, operation: Operation) -> None:
    """Add a loop. Values of the surroundings that its regions read become part of the state."""
    if len(operation.regions) != 2:
        block.fail("while needs two regions, cond and do")
    names = [name for name, _ in operation.regions[0].parameters]
    captured: list[str] = []
    for region in operation.regions:
        captured += [name for name in block.captured(region) if name not in captured]
    condition, body = (
        block.carried(region, [n for n, _ in region.parameters], captured, give_back=back)
        for region, back in zip(operation.regions, (False, True), strict=True)
    )
    operands = block.operands(operation) + [block.value(name) for name in captured]
    if len(names) + len(captured) != len(operands):
        block.fail(f"while carries {len(names)} values, but has {len(operands)} operands")
    operand = block.packed(operands)
    inst = block.add("while", operand.shape, (operand,), (condition, body))
    found = [inst] if len(operands) == 1 else block.elements(inst)
    block.bind(operation, found[: len(operands) - len(captured)])


def _branches(block: BlockBuilder, operation: Operation) -> None:
    """Add `if` or `case` as a conditional; each branch gets the values that it captures."""
    operands = block.operands(operation)
    called = []
    for region in operation.regions:
        captured = block.captured(region)
        called.append(block.carried(region, (), captured, give_back=False))
        operands.append(block.packed([block.value(name) for name in captured]))
    shape = block.result_shape(operation)
    block.results(operation, block.add("conditional", shape, operands, called))


def _call(block: BlockBuilder, operation: Operation) -> None:
    callee = operation.attributes.get("callee")
    if not isinstance(callee, Symbol):
        block.fail("callee must be a function")
    _add_call(block, operation, block.context.computations[callee.name])


def _add_call(
    block: BlockBuilder, operation: Operation, computation: Computation, **values: Any
) -> None:
    inst = block.add(
        "call", computation.root.shape, block.checked_operands(operation), (computation,), **values
    )
    block.results(operation, inst)


def _composite(block: BlockBuilder, operation: Operation) -> None:
    attributes = operation.attributes
    callee = attributes.get("decomposition")
    if not isinstance(callee, Symbol):
        block.fail("decomposition must be a function")
    record = attributes.get("composite_attributes", Record())
    pairs = {
        "composite.attributes": record.text or "{}",
        "composite.name": quoted(str(attributes.get("name", ""))),
        "composite.version": quoted(str(attributes.get("version", 0))),
    }
    block.common = replace(block.common, frontend_attributes=tuple(sorted(pairs.items())))
    _add_call(block, operation, block.context.computations[callee.name], is_composite=True)


def _custom_call(block: BlockBuilder, operation: Operation) -> None:
    """Add a custom call; the form of its configuration tells the version of its interface."""
    attributes = operation.attributes
    operands = block.checked_operands(operation)
    shape = block.result_shape(operation)
    values: dict[str, Any] = {"custom_call_target": str(attributes.get("call_target_name", ""))}
    if attributes.get("has_side_effect") is True:
        values["custom_call_has_side_effect"] = True
    operand_layouts = attributes.get("operand_layouts")
    result_layouts = attributes.get("result_layouts")
    if isinstance(operand_layouts, tuple) and isinstance(result_layouts, tuple):
        if len(operand_layouts) != len(operands):
            block.fail("operand_layouts needs one layout for each operand")
        values["operand_layout_constraints"] = tuple(
            _with_layout(block, inst.shape, layout)
            for inst, layout in zip(operands, operand_layouts, strict=True)
        )
        shape = _with_layouts(block, operation.result_types, result_layouts)
    aliases = attributes.get("output_operand_aliases")
    if isinstance(aliases, tuple) and aliases:
        values["output_to_operand_aliasing"] = RawText(_aliasing(aliases))
    version = attributes.get("api_version", 1)
    config = attributes.get("backend_config", "")
    typed = attributes.get("mhlo.backend_config")
    if isinstance(typed, Record):
        config = typed
    if isinstance(config, Record):
        values["api_version"] = _API_VERSIONS[4]
        block.common = replace(block.common, backend_config=config.text)
    else:
        if version != 1 and 0 <= version < len(_API_VERSIONS):
            values["api_version"] = _API_VERSIONS[version]
        if config:
            block.common = replace(block.common, backend_config=quoted(str(config)))
    called = [
        block.context.computations[symbol.name]
        for symbol in attributes.get("called_computations", ())
    ]
    block.results(operation, block.add("custom-call", shape, operands, called, **values))


def _with_layouts(block: BlockBuilder, types: Sequence[Shape], layouts: Sequence[Any]) -> Shape:
    if len(layouts) != len(types):
        block.fail("result_layouts needs one layout for each result")
    found = tuple(_with_layout(block, s, lay) for s, lay in zip(types, layouts, strict=True))
    return found[0] if len(found) == 1 else TupleShape(found)


def _with_layout(block: BlockBuilder, shape: Shape, layout: Any) -> Shape:
    if not isinstance(shape, ArrayShape) or not isinstance(layout, Dense):
        return shape
    order = tuple(int(dim) for dim in layout.values.reshape(-1))
    if sorted(order) != list(range(shape.rank)):
        block.fail(f"{list(order)} is no layout of {shape}")
    return shape.with_layout(Layout(order))


def _aliasing(aliases: Sequence[Any]) -> str:
    """Return `{{0}: (1, {})}` from a list of output_operand_alias."""
    parts = []
    for alias in aliases:
        output = ", ".join(map(str, alias.get("output_tuple_indices", ())))
        operand = ", ".join(map(str, alias.get("operand_tuple_indices", ())))
        parts.append(f"{{{output}}}: ({alias.get('operand_index', 0)}, {{{operand}}})")
    return "{" + ", ".join(parts) + "}"


def _get_tuple_element(block: BlockBuilder, operation: Operation) -> None:
    (operand,) = block.operands(operation, 1)
    index = operation.attributes.get("index", 0)
    if not isinstance(operand.shape, TupleShape) or not 0 <= index < len(operand.shape.elements):
        block.fail(f"{operand.shape} has no element {index}")
    shape = operand.shape.elements[index]
    block.results(operation, block.add("get-tuple-element", shape, (operand,), index=index))


def _tuple(block: BlockBuilder, operation: Operation) -> None:
    block.results(operation, block.tuple(block.operands(operation)))


def _barrier(block: BlockBuilder, operation: Operation) -> None:
    operand = block.packed(block.operands(operation))
    block.results(operation, block.add("opt-barrier", operand.shape, (operand,)))


def _token(block: BlockBuilder, operation: Operation) -> None:
    block.results(
        operation, block.add("after-all", block.result_shape(operation), block.operands(operation))
    )


def _rng(block: BlockBuilder, operation: Operation) -> None:
    """Add `rng(a, b)`; the declared type replaces the shape operand."""
    distribution = str(operation.attributes.get("rng_distribution", "")).lower()
    operands = block.operands(operation)[:2]
    shape = block.result_shape(operation)
    block.results(operation, block.add("rng", shape, operands, distribution=f"rng_{distribution}"))


def _convert(block: BlockBuilder, operation: Operation) -> None:
    """Add a convert; from complex numbers with an explicit `real`, which HLO requires."""
    (operand,) = block.checked_operands(operation, 1)
    shape = block.array_shape(operation)
    if not isinstance(operand.shape, ArrayShape):
        block.fail("expected a tensor")
    if operand.array.dtype.is_complex and not shape.dtype.is_complex:
        real = operand.array.with_dtype(component_of(operand.array.dtype))
        found = Value(block.add, block.add("real", real, (operand,))).cast(shape.dtype).inst
    else:
        found = block.add("convert", shape, (operand,))
    block.results(operation, found)


def _static(opcode: str, block: BlockBuilder, operation: Operation) -> None:
    """Add a dynamic operation whose type is static: its sizes are not needed."""
    shape = block.result_shape(operation)
    if not isinstance(shape, ArrayShape) or shape.dynamic:
        block.unsupported(operation, "needs a result of fixed size")
    operands = block.operands(operation)[:-1]
    if opcode == "broadcast":
        operation.operands = operation.operands[:1]
        _broadcast_in_dim(block, operation)
        return
    dimension = operation.attributes.get("iota_dimension")
    values: dict[str, Any] = {"iota_dimension": dimension} if opcode == "iota" else {}
    block.results(operation, block.add(opcode, shape, operands, **values))


SPECIAL: dict[str, Callable[[BlockBuilder, Operation], None]] = {
    "after_all": _token,
    "broadcast_in_dim": _broadcast_in_dim,
    "call": _call,
    "case": _branches,
    "clamp": partial(_with_spread_scalars, "clamp", (0, 2)),
    "composite": _composite,
    "constant": _constant,
    "convert": _convert,
    "create_token": _token,
    "custom_call": _custom_call,
    "dynamic_broadcast_in_dim": partial(_static, "broadcast"),
    "dynamic_iota": partial(_static, "iota"),
    "dynamic_reshape": partial(_static, "reshape"),
    "get_tuple_element": _get_tuple_element,
    "if": _branches,
    "optimization_barrier": _barrier,
    "rng": _rng,
    "select": partial(_with_spread_scalars, "select", (0,)),
    "tuple": _tuple,
    "while": _while,
}
"""Name without the dialect -> converter of the operation."""
