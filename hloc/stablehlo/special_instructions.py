"""Instructions whose structure differs from StableHLO's: tuples, calls, loops, fusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloc.dtypes import PRED
from hloc.ir.instruction import Instruction
from hloc.parser.strings import unquote
from hloc.shapes import ArrayShape, TupleShape, leaves
from hloc.stablehlo.attribute_text import dense_text, string_text
from hloc.stablehlo.block_writer import BlockWriter, Special, listed, symbol, types_of
from hloc.stablehlo.types import type_text


def _constant(block: BlockWriter, inst: Instruction) -> None:
    literal = inst.attributes.literal
    if literal.is_elided or not isinstance(literal.shape, ArrayShape):
        block.fail(inst, "has no values that could be written")
    block.assign(inst, f"stablehlo.constant {dense_text(literal)}")


def _tuple(block: BlockWriter, inst: Instruction) -> None:
    block.values[inst] = block.names_of(inst.operands)


def _get_tuple_element(block: BlockWriter, inst: Instruction) -> None:
    (operand,) = inst.operands
    assert isinstance(operand.shape, TupleShape)
    counts = [len(types_of(element)) for element in operand.shape.elements]
    start = sum(counts[: inst.attributes.index])
    block.values[inst] = block.values[operand][start : start + counts[inst.attributes.index]]


def _while(block: BlockWriter, inst: Instruction) -> None:
    condition, body = inst.called
    (operand,) = inst.operands
    names = [block.names.new_argument() for _ in types_of(inst.shape)]
    pairs = [f"{n} = {v}" for n, v in zip(names, block.values[operand], strict=True)]
    regions = []
    for computation in (condition, body):
        inner = block.inner()
        inner.values[computation.parameters[0]] = names
        regions.append(block.closed(inner, computation))
    types = ", ".join(types_of(inst.shape))
    colon = f" : {types}" if types else ""
    pad = "  " * block.indent
    text = f"stablehlo.while({', '.join(pairs)}){colon}\n{pad}cond {regions[0]} do {regions[1]}"
    block.assign(inst, text)


def _conditional(block: BlockWriter, inst: Instruction) -> None:
    """Write `if` or `case`; regions use the values of the operands directly."""
    regions = []
    for computation, operand in zip(inst.called, inst.operands[1:], strict=True):
        inner = block.inner()
        inner.values[computation.parameters[0]] = block.values[operand]
        regions.append(block.closed(inner, computation))
    selector = inst.operands[0]
    name = "if" if selector.array.dtype is PRED else "case"
    block.assign(
        inst,
        f'"stablehlo.{name}"({block.values[selector][0]}) ({", ".join(regions)}) : '
        f"({type_text(selector.shape)}) -> {listed(types_of(inst.shape))}",
    )


def _call(block: BlockWriter, inst: Instruction) -> None:
    name = block.functions.called(inst.called[0])
    block.assign(inst, f"func.call @{name}({block.operands(inst)}) : {block.signature(inst)}")


def _fusion(block: BlockWriter, inst: Instruction) -> None:
    """Write the instructions of the fused computation instead of the fusion."""
    (computation,) = inst.called
    inner = BlockWriter(block.functions, block.special, block.names, block.indent, block.lines, {})
    for parameter, operand in zip(computation.parameters, inst.operands, strict=True):
        inner.values[parameter] = block.values[operand]
    block.values[inst] = inner.computation(computation)


def _bitcast(block: BlockWriter, inst: Instruction) -> None:
    source, shape = inst.operands[0].array, inst.array
    if source.layout is not None or shape.layout is not None:
        block.fail(inst, "depends on a layout, which StableHLO does not have")
    name = "reshape" if source.dtype is shape.dtype else "bitcast_convert"
    if name == "bitcast_convert" and source.dims != shape.dims:
        block.fail(inst, "changes type and dimensions at once")
    block.assign(inst, f"stablehlo.{name} {block.operands(inst)} : {block.signature(inst)}")


def _barrier(block: BlockWriter, inst: Instruction) -> None:
    types = ", ".join(types_of(inst.shape))
    block.assign(inst, f"stablehlo.optimization_barrier {block.operands(inst)} : {types}")


def _after_all(block: BlockWriter, inst: Instruction) -> None:
    if inst.operands:
        block.assign(inst, f"stablehlo.after_all {block.operands(inst)} : !stablehlo.token")
    else:
        block.assign(inst, "stablehlo.create_token : !stablehlo.token")


def _top_k(block: BlockWriter, inst: Instruction) -> None:
    if not inst.attributes.largest:
        block.fail(inst, "of the smallest elements has no operation in StableHLO")
    operands = block.operands(inst)
    block.assign(inst, f"chlo.top_k({operands}, k = {inst.attributes.k}) : ", arrow=True)


def _rng(block: BlockWriter, inst: Instruction) -> None:
    dims = inst.array.dims
    sizes = block.names.new_value()
    kind = f"tensor<{len(dims)}xi64>"
    block.line(f"{sizes} = stablehlo.constant dense<{list(dims) if dims else ''}> : {kind}")
    distribution = inst.attributes.distribution.removeprefix("rng_").upper()
    types = ", ".join(type_text(operand.shape) for operand in inst.operands)
    block.assign(
        inst,
        f"stablehlo.rng {block.operands(inst)}, {sizes}, distribution = {distribution} : "
        f"({types}, {kind}) -> {type_text(inst.shape)}",
    )


def _custom_call(block: BlockWriter, inst: Instruction) -> None:
    """Write a custom call; version 4 has a dictionary as configuration, others a string."""
    attributes = inst.attributes
    parts: dict[str, str] = {}
    config = inst.common.backend_config or ""
    if attributes.api_version == "API_VERSION_TYPED_FFI":
        parts["api_version"] = "4 : i32"
        parts["backend_config"] = config if config.startswith("{") else "{}"
    else:
        parts["backend_config"] = string_text(unquote(config))
    if attributes.custom_call_has_side_effect:
        parts["has_side_effect"] = "true"
    if inst.common.frontend_attributes:
        pairs = [f"{key} = {string_text(unquote(v))}" for key, v in inst.common.frontend_attributes]
        parts["mhlo.frontend_attributes"] = "{" + ", ".join(pairs) + "}"
    if attributes.operand_layout_constraints is not None:
        parts["operand_layouts"] = _layouts(attributes.operand_layout_constraints)
        parts["result_layouts"] = _layouts([leaf for _, leaf in leaves(inst.shape)])
    if inst.called:
        names = [f"@{block.functions.called(computation)}" for computation in inst.called]
        parts["called_computations"] = f"[{', '.join(names)}]"
    dictionary = ", ".join(f"{name} = {text}" for name, text in sorted(parts.items()))
    target = symbol(attributes.custom_call_target)
    block.assign(
        inst,
        f"stablehlo.custom_call @{target}({block.operands(inst)}) {{{dictionary}}} : "
        f"{block.signature(inst)}",
    )


def _layouts(shapes: Sequence[Any]) -> str:
    """Return `[dense<[0, 1]> : tensor<2xindex>]`, one entry per array."""
    texts = []
    for shape in shapes:
        order = list(shape.minor_to_major) if isinstance(shape, ArrayShape) else []
        texts.append(f"dense<{order if order else ''}> : tensor<{len(order)}xindex>")
    return f"[{', '.join(texts)}]"


SPECIAL: Special = {
    "after-all": _after_all,
    "bitcast": _bitcast,
    "call": _call,
    "conditional": _conditional,
    "constant": _constant,
    "custom-call": _custom_call,
    "fusion": _fusion,
    "get-tuple-element": _get_tuple_element,
    "opt-barrier": _barrier,
    "rng": _rng,
    "topk": _top_k,
    "tuple": _tuple,
    "while": _while,
}
