"""What each collective calls over MPI: a stand-in performs it, with the evaluator's bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

import hloc
from hloc.codegen.plan.collective_exchange import exchange_of
from hloc.codegen.plan.exchange import Exchange
from hloc.dtypes import dtype_named
from hloc.evaluator import evaluate_computation, evaluate_devices
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.folding import map_scalars
from hloc.runtime.communicator.mpi.call_lists import (
    IN_ORDER,
    CallList,
    ExchangeOptions,
    call_list,
    rendezvous_numbers,
)
from hloc.runtime.communicator.mpi.calls import MESSAGE_BYTES, Buffer
from hloc.runtime.communicator.mpi.collectives import SMALL_BYTES
from hloc.runtime.communicator.mpi.transport import Processes
from hloc.shapes import ArrayShape, leaves
from tests.mpi.stand_in import Combiners, Job, functions

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEVICES = 4
LARGE = SMALL_BYTES // 4 + 77
GLOBAL = "channel_id=1, use_global_device_ids=true"
EVERY = "replica_groups={{2,0,3,1}}"
HALVES = "replica_groups={{3,0},{1,2}}"
NEIGHBOURS = "replica_groups={{0,1},{2,3}}"

COLLECTIVES = {
    "all-reduce": (f"f32[5] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=add", "f32[5]"),
    "all-reduce of two": (f"f32[5] all-reduce(p0), {HALVES}, {GLOBAL}, to_apply=add", "f32[5]"),
    "all-reduce in a process": (
        f"f32[5] all-reduce(p0), {NEIGHBOURS}, {GLOBAL}, to_apply=add",
        "f32[5]",
    ),
    "large all-reduce": (
        f"f32[{LARGE}] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=add",
        f"f32[{LARGE}]",
    ),
    "shares without elements": (
        f"f64[{SMALL_BYTES // 8 + 1}] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=wide",
        f"f64[{SMALL_BYTES // 8 + 1}]",
    ),
    "maximum keeps NaN": (f"f32[5] all-reduce(p0), {HALVES}, {GLOBAL}, to_apply=most", "f32[5]"),
    "integers": (f"s32[5] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=whole", "s32[5]"),
    "bytes that wrap around": (f"s8[5] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=byte", "s8[5]"),
    "bf16 in f32": (f"bf16[5] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=add", "bf16[5]"),
    "variadic": (
        f"(f32[5], f32[2,2]) all-reduce(p0, p1), {HALVES}, {GLOBAL}, to_apply=add",
        "f32[5]",
        "f32[2,2]",
    ),
    "any reducer": (f"f32[5] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=less", "f32[5]"),
    "no elements": (f"f32[0] all-reduce(p0), {EVERY}, {GLOBAL}, to_apply=add", "f32[0]"),
    "all-gather": (f"s32[8,3] all-gather(p0), {EVERY}, {GLOBAL}, dimensions={{0}}", "s32[2,3]"),
    "inner all-gather": (
        f"s32[2,12] all-gather(p0), {EVERY}, {GLOBAL}, dimensions={{1}}",
        "s32[2,3]",
    ),
    "reduce-scatter": (
        f"f32[2,3] reduce-scatter(p0), {EVERY}, {GLOBAL}, dimensions={{0}}, to_apply=add",
        "f32[8,3]",
    ),
    "inner reduce-scatter": (
        f"f32[2,3] reduce-scatter(p0), {HALVES}, {GLOBAL}, dimensions={{1}}, to_apply=add",
        "f32[2,6]",
    ),
    "reduce-scatter of integers": (
        f"s32[2,3] reduce-scatter(p0), {EVERY}, {GLOBAL}, dimensions={{0}}, to_apply=whole",
        "s32[8,3]",
    ),
    "all-to-all": (f"f32[4,3] all-to-all(p0), {EVERY}, channel_id=1, dimensions={{0}}", "f32[4,3]"),
    "inner all-to-all": (
        f"f32[3,8] all-to-all(p0), {EVERY}, channel_id=1, dimensions={{1}}",
        "f32[3,8]",
    ),
    "all-to-all of arrays": (
        f"(f32[3], f32[3]) all-to-all(p0, p1), {HALVES}, channel_id=1",
        "f32[3]",
        "f32[3]",
    ),
    "broadcast": (
        "f32[3] collective-broadcast(p0), replica_groups={{2,0,1}}, channel_id=1",
        "f32[3]",
    ),
    "permute": (
        "f32[3] collective-permute(p0), source_target_pairs={{0,1},{1,3},{2,2}}, channel_id=1",
        "f32[3]",
    ),
}  # fmt: skip
REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
wide { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] add(a, b) }
most { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] subtract(a, b) }
whole { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
byte { a = s8[] parameter(0) b = s8[] parameter(1) ROOT r = s8[] add(a, b) }
"""


def module_of(name: str) -> Module:
    body, *shapes = COLLECTIVES[name]
    parameters = "".join(f"p{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
    head = f"HloModule m, num_partitions={DEVICES}\n"
    return hloc.parse(f"{head}{REDUCERS}ENTRY e {{ {parameters} ROOT r = {body} }}")


def exchange_in(module: Module) -> Exchange:
    exchange = exchange_of(module.entry.root)
    return exchange.with_kernels(range(len(exchange.combiners)))


def arguments_of(module: Module) -> list[list[Array]]:
    rng = np.random.default_rng(7)
    result = []
    for parameter in module.entry.parameters:
        shape = parameter.array
        scale = 40 if shape.dtype.bits == 8 else 9
        values = [(rng.standard_normal(shape.dims) * scale).clip(-99, 99) for _ in range(DEVICES)]
        if shape.dtype.is_float and values[0].size:
            values[1].flat[0] = np.nan
        result.append([np.asarray(value).astype(shape.dtype.numpy) for value in values])
    return result


def combiners_of(exchange: Exchange, inst: Instruction) -> Combiners:
    """Return reductions that do what the kernels do, by the evaluator."""

    def combiner(dtype_name: str) -> Any:
        dtype, reducer = dtype_named(dtype_name), inst.called[0]
        inner = reducer.root.array.dtype

        def combine(parts: Any) -> Any:
            total, *others = (p.copy().view(dtype.numpy).astype(inner.numpy) for p in parts)
            for other in others:
                (total,) = map_scalars(evaluate_computation, reducer, (total, other), total.shape)
            return total.astype(dtype.numpy).view(np.uint8)

        return combine

    return {c.symbol: combiner(exchange.operands[c.operand].dtype) for c in exchange.combiners}


def lists_of(exchange: Exchange, processes: Processes, manner: ExchangeOptions) -> list[CallList]:
    return [call_list(exchange, 0, device, processes, manner) for device in range(DEVICES)]


MANNERS = {
    "": ExchangeOptions(checked=False),
    "checked": ExchangeOptions(checked=True),
    "in-pieces": ExchangeOptions(checked=False, most_bytes=8),
}


def _marks(name: str, manner: str, per_process: int) -> list[pytest.MarkDecorator]:
    # Thousands of pieces, which small arrays have a few of for any number of devices.
    large = name in ("large all-reduce", "shares without elements")
    return [pytest.mark.slow] if large and manner == "in-pieces" and per_process > 1 else []


@pytest.mark.parametrize(
    ("name", "manner", "per_process"),
    [
        pytest.param(
            name,
            MANNERS[manner],
            count,
            id=f"{name}-{manner}-{count}",
            marks=_marks(name, manner, count),
        )
        for name in COLLECTIVES
        for manner in MANNERS
        for count in (1, 2, 4)
    ],
)
def test_every_collective_gives_the_bits_of_the_evaluator(
    name: str, manner: ExchangeOptions, per_process: int
) -> None:
    module = module_of(name)
    exchange, arguments = exchange_in(module), arguments_of(module)
    processes = Processes(DEVICES, per_process)
    lists = lists_of(exchange, processes, manner)
    shapes = [leaf for _, leaf in leaves(module.entry.root.shape) if isinstance(leaf, ArrayShape)]
    arrays = [
        [parts[device] for parts in arguments]
        + [np.full(shape.dims, 55, shape.dtype.numpy) for shape in shapes]
        for device in range(DEVICES)
    ]
    combiners = combiners_of(exchange, module.entry.root)
    assert Job(processes).perform(lists, arrays, combiners) == [None] * DEVICES
    for number, parts in enumerate(evaluate_devices(module, arguments)):
        for device, part in enumerate(parts):
            found = arrays[device][len(arguments) + number]
            assert found.tobytes() == part.tobytes(), f"device {device}: {found} is not {part}"


def test_mpi_sums_itself_where_order_cannot_change_the_bits() -> None:
    def called(name: str, manner: ExchangeOptions = IN_ORDER, per_process: int = 1) -> list[str]:
        exchange = exchange_in(module_of(name))
        return functions(call_list(exchange, 0, 0, Processes(DEVICES, per_process), manner))

    assert called("integers") == ["MPI_Allreduce"]
    assert called("all-reduce of two") == ["MPI_Allreduce"]
    assert called("all-reduce") == ["MPI_Allgather", "combine"]
    assert called("all-reduce", ExchangeOptions(fast=True)) == ["MPI_Allreduce"]
    assert called("maximum keeps NaN", ExchangeOptions(fast=True)) == ["MPI_Allgather", "combine"]
    assert called("bf16 in f32", ExchangeOptions(fast=True)) == ["MPI_Allgather", "combine"]
    assert "MPI_Allreduce" not in called("integers", per_process=2)


def test_large_sums_move_each_byte_twice_and_not_once_per_member() -> None:
    (first, *_) = lists_of(
        exchange_in(module_of("large all-reduce")), Processes(4, 1), ExchangeOptions()
    )
    assert first.scratch_bytes < 1.1 * 4 * LARGE
    assert functions(first) == [
        *["MPI_Irecv"] * 3, *["MPI_Isend"] * 3, "MPI_Waitall",
        "combine",
        *["MPI_Irecv"] * 3, *["MPI_Isend"] * 3, "MPI_Waitall",
    ]  # fmt: skip


def ragged() -> tuple[Module, list[list[Array]]]:
    """Return an exchange of rows between 4 devices, and its arguments."""
    sizes = "s32[4]"
    shapes = ["f32[8,2]", "f32[9,2]", *[sizes] * 4]
    parameters = "".join(f"p{i} = {shape} parameter({i})\n" for i, shape in enumerate(shapes))
    module = hloc.parse(
        f"HloModule m, num_partitions=4\nENTRY e {{ {parameters} ROOT r = f32[9,2] "
        f"ragged-all-to-all(p0, p1, p2, p3, p4, p5), {EVERY}, channel_id=1 }}"
    )
    rng = np.random.default_rng(3)
    group = (2, 0, 3, 1)
    rank = {device: k for k, device in enumerate(group)}
    sends = [np.array([(k + rank[d]) % 3 for k in range(4)], np.int32) for d in range(4)]
    arguments: list[list[Array]] = [
        [rng.standard_normal((8, 2)).astype(np.float32) for _ in range(4)],
        [rng.standard_normal((9, 2)).astype(np.float32) for _ in range(4)],
        [np.arange(4, dtype=np.int32) * 2 for _ in range(4)],
        sends,
        [np.full(4, 2 * rank[d] + 1, np.int32) for d in range(4)],
        [np.array([sends[s][rank[d]] for s in group], np.int32) for d in range(4)],
    ]
    return module, arguments


@pytest.mark.parametrize("most_bytes", [MESSAGE_BYTES, 12])
def test_ragged_rows_go_where_their_sender_says(most_bytes: int) -> None:
    module, arguments = ragged()
    (want,) = evaluate_devices(module, arguments)
    for per_process in (1, 2, 4):
        processes = Processes(4, per_process)
        arrays = [
            [*(parts[d] for parts in arguments), np.zeros((9, 2), np.float32)] for d in range(4)
        ]
        manner = ExchangeOptions(checked=True, most_bytes=most_bytes)
        lists = lists_of(exchange_in(module), processes, manner)
        assert Job(processes).perform(lists, arrays, {}) == [None] * 4
        for d in range(4):
            np.testing.assert_array_equal(arrays[d][-1], want[d])


def test_checked_devices_see_that_they_are_at_different_collectives() -> None:
    exchange = exchange_in(module_of("all-gather"))
    processes, manner = Processes(DEVICES, 1), ExchangeOptions(checked=True)
    lists = [call_list(exchange, int(d == 2), d, processes, manner) for d in range(DEVICES)]
    only_check = [replace(item, calls=item.calls[: 2 * 3 + 3]) for item in lists]
    arrays = [[np.zeros((2, 3), np.int32), np.zeros((8, 3), np.int32)] for _ in range(DEVICES)]
    faults = Job(processes).perform(only_check, arrays, {})
    assert all(isinstance(fault, ValueError) for fault in faults)
    assert str(faults[0]) == "others are at [1, 0, 0], not 0"


def test_branches_may_each_have_an_instruction_for_one_rendezvous() -> None:
    exchange = exchange_in(module_of("all-gather"))
    same = replace(exchange, name="other", place="m.hlo:9:1")
    other_channel, elsewhere = replace(exchange, channel=2), replace(exchange, groups=((0, 1),))
    exchanges = (exchange, same, other_channel, elsewhere)
    assert rendezvous_numbers(exchanges, 0) == (0, 0, 2, 3)
    wider = replace(exchange, groups=(*exchange.groups, (4, 5)))
    assert rendezvous_numbers((exchange, wider), 0) == (0, 0), "other groups are no concern"


def test_parts_above_the_limit_of_a_message_go_in_pieces() -> None:
    def messages(name: str, most_bytes: int) -> list[tuple[int, int]]:
        """Return offset and bytes of what device 0 sends in the first round."""
        exchange, manner = exchange_in(module_of(name)), ExchangeOptions(most_bytes=most_bytes)
        calls = call_list(exchange, 0, 0, Processes(DEVICES, 1), manner)
        sent = [call.operands for call in calls.calls if call.function == "MPI_Isend"]
        return [(part[0].offset, part[1]) for part in sent if isinstance(part[0], Buffer)]  # type: ignore[misc]

    assert messages("permute", 12) == [(0, 12)]
    assert messages("permute", 8) == [(0, 8), (8, 4)]
    assert messages("all-gather", 24) == [], "MPI_Allgather takes it"
    assert messages("all-gather", 23) == [(0, 23), (23, 1)] * DEVICES


def test_arrays_of_two_gibibytes_are_sent() -> None:
    module = hloc.parse(
        "HloModule m, num_partitions=2\nENTRY e { x = s8[2147483650] parameter(0)\n"
        "  ROOT r = s8[2147483650] collective-permute(x), channel_id=1, "
        "source_target_pairs={{0,1}} }"
    )
    calls = call_list(exchange_of(module.entry.root), 0, 0, Processes(2, 1), IN_ORDER).calls
    sent = [call.operands[:2] for call in calls if call.function == "MPI_Isend"]
    assert sent == [(Buffer("array"), 2**31 - 1), (Buffer("array", offset=2**31 - 1), 3)]
