"""`X-start`, `X-update`, `X-done` for any opcode X (format reference, 12.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloc.errors import HloError
from hloc.ir.async_chain import async_start_of, is_prefix, may_be_link, producer_of
from hloc.ir.attributes import CommonAttributes
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode
from hloc.lazy_dataclass import dataclass
from hloc.ops import OPCODES
from hloc.shapes import Shape, TupleShape
from hloc.source import Span

_SUFFIXES = ("-start", "-update", "-done")


@dataclass(frozen=True, slots=True)
class AsyncSugar:
    """`negate-start`: the row `async-start` and the wrapped row `negate`."""

    row: Opcode
    wrapped: Opcode


def async_sugar(opcode: str) -> AsyncSugar | None:
    """Return what `opcode` abbreviates, or None."""
    for suffix in _SUFFIXES:
        wrapped = OPCODES.get(opcode.removesuffix(suffix)) if opcode.endswith(suffix) else None
        if wrapped is not None and f"async{suffix}" in OPCODES:
            return AsyncSugar(OPCODES[f"async{suffix}"], wrapped)
    return None


def wrapped_shape(shape: Shape | None, row: Opcode, span: Span) -> Shape:
    """Return the result shape inside `((operands), result, ...)`; HloError for another form."""
    if (
        not isinstance(shape, TupleShape)
        or len(shape.elements) < 2
        or not isinstance(shape.elements[0], TupleShape)
    ):
        raise HloError(
            f"{row.name} has a shape of the form ((operands), result, ...), not {shape}",
            span, (), "HLOC0201",
        )  # fmt: skip
    return shape.elements[1]


def set_thread(computation: Computation, thread: str) -> None:
    """Put `computation` and everything it calls on `thread`, as XLA does for an async-start."""
    stack = [computation]
    seen: set[int] = set()
    while stack:
        found = stack.pop()
        if found.uid in seen:
            continue
        seen.add(found.uid)
        found.execution_thread = thread
        stack += [called for inst in found.instructions for called in inst.called]


def share_common(computation: Computation, common: CommonAttributes) -> None:
    """Copy the attributes of an async-start to the root of what it starts, as XLA does."""
    root = computation.root
    shared = replace(
        root.common,
        metadata=common.metadata or root.common.metadata,
        origin=common.origin or root.common.origin,
        backend_config=common.backend_config or root.common.backend_config,
        frontend_attributes=common.frontend_attributes or root.common.frontend_attributes,
        statistics=common.statistics or root.common.statistics,
    )
    computation.set_common(root, shared)


def check_async(
    row: Opcode, wrapped: Opcode | None, operands: tuple[Instruction, ...],
    called: tuple[Computation, ...], shape: Shape | None, record: Any, span: Span,
    computation: Computation,
) -> None:  # fmt: skip
    """Check an async-start, async-update or async-done of `computation`; set a start's thread.

    Raises:
        HloError: a shape of the wrong form, two starts of one computation in one computation (a
            loop that carries a started computation starts it before and inside), or an update or
            done whose operand cannot be a link, or is one of another opcode. For the state of a
            loop the verifier checks this: the loop has not been read yet.
    """
    if row.name != "async-done":
        wrapped_shape(shape, row, span)
    if row.name == "async-start":
        starts = (c for c in called[0].callers if c.opcode.name == "async-start")
        if any(start.computation is computation for start in starts):
            raise HloError(
                f"computation {called[0].name} is called by more than one async-start of "
                f"{computation.name}; give each a copy of its own",
                span, (), "HLOC0205",
            )  # fmt: skip
        set_thread(called[0], record.async_execution_thread)
        return
    if not operands:
        raise HloError(f"{row.name} has no operand to go on with", span, (), "HLOC0206")
    operand = operands[0]
    if not may_be_link(operand):
        raise HloError(
            f"the operand of {row.name} is an async-start or async-update, not "
            f"{operand.opcode.name}",
            span, (), "HLOC0206",
        )  # fmt: skip
    if row.name == "async-update" and not _continues(operand.shape, shape):
        raise HloError(
            f"async-update has the operands of {operand.shape} and perhaps more, not {shape}",
            span, (), "HLOC0201",
        )  # fmt: skip
    start = async_start_of(operand)
    inside = start.called[0].root.opcode if start is not None else None
    if wrapped is not None and inside is not None and wrapped is not inside:
        raise HloError(
            f"{wrapped.name} is finished here, but {operand.name} started {inside.name}",
            span, (), "HLOC0206",
        )  # fmt: skip


def _continues(before: Shape, after: Shape | None) -> bool:
    return (
        not isinstance(before, TupleShape)
        or not isinstance(after, TupleShape)
        or all(map(is_prefix, before.elements[:2], after.elements[:2]))
    )


def bind_late(inst: Instruction) -> None:
    """Give the computation of `X-start` the operands and the result of a later link."""
    start = async_start_of(inst)
    before = producer_of(inst.operands[0])
    if start is None or before is None:
        return
    computation = start.called[0]
    root, parameter = computation.root, OPCODES["parameter"]
    assert parameter.attributes is not None
    for operand in inst.operands[1:]:
        number = len(computation.parameters)
        new = computation.add(
            parameter, operand.shape, (), parameter.attributes(number=number), name="async_param"
        )
        computation.set_operands(root, (*root.operands, new))
    result = inst.shape
    if inst.opcode.name == "async-update":
        assert isinstance(result, TupleShape)
        result = result.elements[1]
    if not is_prefix(result, root.shape):
        computation.set_shape(root, result)
