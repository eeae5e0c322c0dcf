"""Collectives: all-reduce and its relatives.

`collective_shapes.py` has their shape rules, `exchanges.py` defines their results for any number of
participants, `ir/device_groups.py` the participants; `codegen/plan/exchange.py` plans them. A
collective of one participant is mostly the identity (`all-reduce-simplifier`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hloc.ir.attribute_fields import attr
from hloc.ir.factors import WHOLE, FactorDraft
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import (
    CalledRole,
    ExchangeFunction,
    FactorFunction,
    InferFunction,
    define,
)
from hloc.ir.replica_groups import ALL, ReplicaGroups
from hloc.lazy_dataclass import dataclass
from hloc.ops.collective_shapes import (
    infer_all_gather,
    infer_all_gather_start,
    infer_all_reduce,
    infer_all_reduce_done,
    infer_all_reduce_start,
    infer_all_to_all,
    infer_collective_broadcast,
    infer_collective_permute,
    infer_collective_permute_start,
    infer_done,
    infer_ragged_all_to_all,
    infer_reduce_scatter,
)
from hloc.ops.exchanges import (
    all_gather,
    all_reduce,
    all_to_all,
    collective_broadcast,
    collective_permute,
    evaluate_alone,
    evaluate_done,
    ragged_all_to_all,
    reduce_scatter,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAttributes:
    channel_id: int | None = attr("int", default=None)
    replica_groups: ReplicaGroups = attr("replica_groups", default=ALL, always=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceAttributes(GroupAttributes):
    constrain_layout: bool = attr("bool", default=False)
    use_global_device_ids: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceScatterAttributes(AllReduceAttributes):
    dimensions: tuple[int, ...] = attr("int_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllGatherAttributes(GroupAttributes):
    constrain_layout: bool = attr("bool", default=False)
    dimensions: tuple[int, ...] = attr("int_list")
    use_global_device_ids: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAllAttributes(GroupAttributes):
    """`dimensions` None is the tuple form: one operand per participant."""

    constrain_layout: bool = attr("bool", default=False)
    dimensions: tuple[int, ...] | None = attr("int_list", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveBroadcastAttributes(GroupAttributes):
    """With `has_dynamic_root` the last operand has the rank of the root for each other operand."""

    has_dynamic_root: bool = attr("bool", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePermuteAttributes:
    channel_id: int | None = attr("int", default=None)
    source_target_pairs: tuple[tuple[int, ...], ...] = attr("int_list_list")
    slice_sizes: tuple[tuple[int, ...], ...] = attr("int_list_list", default=())


# ---------------------------------------------------------------- factors


def _dims_together(draft: FactorDraft, inst: Instruction) -> None:
    """Link the dimensions of each operand with those of its result."""
    pairs = zip(inst.operands, draft.operands, draft.results, strict=False)
    for operand, source, result in pairs:
        for dim, size in enumerate(operand.array.dims):
            source[dim] = result[dim] = draft.factor(size)


def _dims_not_named(draft: FactorDraft, inst: Instruction) -> None:
    """Link the dimensions that are not scattered, gathered or exchanged."""
    _dims_together(draft, inst)
    for side in (*draft.operands, *draft.results):
        for dim in inst.attributes.dimensions or ():
            side[dim] = WHOLE


# ---------------------------------------------------------------- rows

_TO_APPLY = (CalledRole("to_apply"),)


def _define(
    name: str,
    reads: str,
    infer: InferFunction,
    exchange: ExchangeFunction,
    attributes: type[Any],
    *,
    phases: tuple[str, ...],
    factors: FactorFunction | None = None,
    calls: tuple[CalledRole, ...] = (),
    started: InferFunction | None = None,
) -> None:
    """Define a collective and, if `started` infers its shape, the opcodes that start and end it."""
    is_sum = name == "all-reduce"
    common = partial(define, shape_required=True)
    sent = partial(
        common,
        arity=None,
        attributes=attributes,
        calls=calls,
        exchange=exchange,
        phases=phases,
        evaluate=evaluate_alone,
    )
    sent(name=name, reads=f"{name}(x) {reads}", infer=infer, factors=factors)
    if started is None:
        return
    start, done = f"{name}-start", f"{name}-done"
    form = "" if is_sum else ": (operands, results, ...)"
    sent(name=start, reads=f"{start}(x) starts {name}(x){form}", infer=started, ended_by=(done,))
    common(
        name=done,
        reads=f"{done}(s) is the result of the {name} that s started",
        arity=1,
        infer=infer_all_reduce_done if is_sum else infer_done,
        evaluate=evaluate_done,
    )


_define(
    "all-reduce",
    "combines x of all participants; of one it is x",
    infer_all_reduce,
    all_reduce,
    AllReduceAttributes,
    factors=_dims_together,
    phases=("scatter", "gather"),
    calls=_TO_APPLY,
    started=infer_all_reduce_start,
)
_define(
    "reduce-scatter",
    "combines x of all participants; each keeps its share",
    infer_reduce_scatter,
    reduce_scatter,
    ReduceScatterAttributes,
    factors=_dims_not_named,
    phases=("scatter",),
    calls=_TO_APPLY,
)
_define(
    "all-gather",
    "concatenates x of all participants",
    infer_all_gather,
    all_gather,
    AllGatherAttributes,
    factors=_dims_not_named,
    phases=("gather",),
    started=infer_all_gather_start,
)
_define(
    "all-to-all",
    "sends part i of x to participant i",
    infer_all_to_all,
    all_to_all,
    AllToAllAttributes,
    factors=_dims_not_named,
    phases=("swap",),
)
_define(
    "ragged-all-to-all",
    "sends slices of unequal size; operand 1 is the array they are written into",
    infer_ragged_all_to_all,
    ragged_all_to_all,
    GroupAttributes,
    phases=("swap",),
)
_define(
    "collective-broadcast",
    "is the x of the first participant of each group, or of the one that the last operand names",
    infer_collective_broadcast,
    collective_broadcast,
    CollectiveBroadcastAttributes,
    factors=_dims_together,
    phases=("relay",),
)
_define(
    "collective-permute",
    "sends x from each source to its target",
    infer_collective_permute,
    collective_permute,
    CollectivePermuteAttributes,
    factors=_dims_together,
    phases=("shift",),
    started=infer_collective_permute_start,
)
