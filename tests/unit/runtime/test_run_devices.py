"""Compiled programs of several devices give what the evaluator gives, or the same kind of error."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.aot.linkable import build_library
from hloc.codegen.cpu.backend import CpuModule
from hloc.dtypes import DTYPES, DType
from hloc.errors import HloError
from hloc.evaluator import evaluate_devices
from hloc.runtime.arena import clear_stops, stop_all
from tests.waiting import again_and_again

DEVICES = 6
"""As 2 replicas of 3 partitions."""

MODES = {
    "replicas": "replica_groups={}",
    "both": "channel_id=1, replica_groups={{1,0}}",
    "flattened": "channel_id=1, use_global_device_ids=true, replica_groups={{5,1},{0,2},{4,3}}",
    "iota": "channel_id=1, use_global_device_ids=true, replica_groups=[2,3]<=[3,2]T(1,0)",
}
SIZES = {"replicas": 2, "both": 6, "flattened": 2, "iota": 3}
PLAIN_MODES = {
    "replicas": (2, "replica_groups={}"),
    "partitions": (3, "channel_id=1, replica_groups={{2,0,1}}"),
}
"""Modes of opcodes without `use_global_device_ids`, and the sizes of their groups."""

TYPES = [DTYPES[name] for name in (
    "pred", "s4", "u8", "s16", "s32", "u64", "f8e4m3fn", "bf16", "f16", "f32", "f64", "c64", "c128",
)]  # fmt: skip


def arguments(*shapes: tuple[DType, tuple[int, ...]], devices: int = DEVICES) -> list[list[Any]]:
    """Return random arrays per parameter and device, NaN and infinities among the floats."""
    rng = np.random.default_rng(3)
    result = []
    for dtype, dims in shapes:
        parts = []
        for _ in range(devices):
            values = rng.integers(-3, 4, dims).astype(np.float64)
            if dtype.is_float or dtype.is_complex:
                values = values + rng.random(dims).round(2)
                values[rng.random(dims) < 0.06] = np.nan
            if dtype.is_unsigned:
                values = np.abs(values)
            with np.errstate(all="ignore"):
                parts.append((values > 0 if dtype.is_pred else values).astype(dtype.numpy))
        result.append(parts)
    return result


def check(text: str, args: list[list[Any]], *, levels: tuple[int, ...] = (0, 2)) -> list[list[Any]]:
    """Compare compiled runs with the evaluator, bit for bit but for the bits of NaN."""
    expected = evaluate_devices(hloc.parse(text), args)
    for level in levels:
        results = hloc.compile(text, opt_level=level).run_devices(args)
        assert len(results) == len(expected)
        for leaf, wanted in zip(results, expected, strict=True):
            for device, (one, other) in enumerate(zip(leaf, wanted, strict=True)):
                assert one.dtype == other.dtype
                assert one.shape == other.shape
                assert _same(one, other), f"-O{level}, device {device}:\n{one}\n{other}"
    return expected


def _same(one: Any, other: Any) -> bool:
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind in "c":
        return _same(one.real, other.real) and _same(one.imag, other.imag)
    wide = one.astype(np.float64), other.astype(np.float64)
    return bool(np.array_equal(*wide, equal_nan=True))


def module(entry: str, called: str = "", header: str = "replica_count=2, num_partitions=3") -> str:
    """Return the text of a module."""
    return f"HloModule m, {header}\n{called}ENTRY e {{\n{entry}\n}}\n"


def reducer(dtype: DType, opcode: str) -> str:
    return f"f {{ p = {dtype}[] parameter(0) q = {dtype}[] parameter(1) ROOT r = {dtype}[] {opcode}(p, q) }}\n"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sums_of_every_type_and_mode(dtype: DType, mode: str) -> None:
    opcode = "or" if dtype.is_pred else "add"
    size = SIZES[mode]
    dims = (4, size * 2)
    entry = (
        f"  a = {dtype}[4,{size * 2}] parameter(0)\n"
        f"  x = {dtype}[4,{size * 2}] all-reduce(a), {MODES[mode]}, to_apply=f\n"
        f"  y = {dtype}[4,2] reduce-scatter(a), {MODES[mode]}, dimensions={{1}}, to_apply=f\n"
        f"  ROOT t = ({dtype}[4,{size * 2}], {dtype}[4,2]) tuple(x, y)"
    )
    check(module(entry, reducer(dtype, opcode)), arguments((dtype, dims)))


@pytest.mark.parametrize("opcode", ["add", "multiply", "minimum", "maximum"])
@pytest.mark.parametrize("dtype", [d for d in TYPES if not d.is_complex and not d.is_pred], ids=str)
def test_reducers_of_numbers_keep_nan(dtype: DType, opcode: str) -> None:
    entry = f"  a = {dtype}[37] parameter(0)\n  ROOT x = {dtype}[37] all-reduce(a), {MODES['both']}, to_apply=f"
    check(module(entry, reducer(dtype, opcode)), arguments((dtype, (37,))), levels=(2,))


@pytest.mark.parametrize("opcode", ["and", "or", "xor"])
@pytest.mark.parametrize("name", ["pred", "u8", "s32"])
def test_reducers_of_bits(name: str, opcode: str) -> None:
    entry = f"  a = {name}[5] parameter(0)\n  ROOT x = {name}[5] all-reduce(a), {MODES['iota']}, to_apply=f"
    check(
        module(entry, reducer(DTYPES[name], opcode)), arguments((DTYPES[name], (5,))), levels=(2,)
    )


ANY_REDUCERS = {
    "several steps": "f { p = f32[] parameter(0) q = f32[] parameter(1) d = f32[] subtract(p, q) a = f32[] abs(d) ROOT r = f32[] add(a, q) }\n",
    "other order": "f { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] subtract(q, p) }\n",
    "wider": "f { p = f64[] parameter(0) q = f64[] parameter(1) ROOT r = f64[] add(p, q) }\n",
    "a call": "g { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] power(p, q) }\nf { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] call(p, q), to_apply=g }\n",
}  # fmt: skip


@pytest.mark.parametrize("name", ANY_REDUCERS)
def test_any_reducer_in_the_order_of_ranks(name: str) -> None:
    entry = (
        f"  a = f32[11] parameter(0)\n  ROOT x = f32[11] all-reduce(a), {MODES['iota']}, to_apply=f"
    )
    check(module(entry, ANY_REDUCERS[name]), arguments((DTYPES["f32"], (11,))))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gathers_along_every_dimension(mode: str, dim: int) -> None:
    dims = [2, 3, 5]
    result = [n * SIZES[mode] if d == dim else n for d, n in enumerate(dims)]
    text = ",".join(map(str, result))
    entry = f"  a = bf16[2,3,5] parameter(0)\n  ROOT x = bf16[{text}] all-gather(a), {MODES[mode]}, dimensions={{{dim}}}"
    check(module(entry), arguments((DTYPES["bf16"], (2, 3, 5))))


@pytest.mark.parametrize("mode", PLAIN_MODES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_all_to_all_permute_and_broadcast(dtype: DType, mode: str) -> None:
    size, groups = PLAIN_MODES[mode]
    channel = "" if mode == "replicas" else "channel_id=1, "
    shape = f"{dtype}[3,{size * 2}]"
    operands = ", ".join(f"p{i}" for i in range(size))
    parameters = "\n".join(f"  p{i} = {shape} parameter({i})" for i in range(size))
    entry = (
        f"{parameters}\n"
        f"  x = {shape} all-to-all(p0), {groups}, dimensions={{1}}\n"
        f"  y = ({', '.join([shape] * size)}) all-to-all({operands}), {groups}\n"
        f"  z = {shape} collective-permute(p0), {channel}source_target_pairs={{{{1,0}}}}\n"
        f"  w = {shape} collective-broadcast(p1), {channel}replica_groups={{{{1,0}}}}\n"
        f"  ROOT t = ({shape}, ({', '.join([shape] * size)}), {shape}, {shape}) tuple(x, y, z, w)"
    )
    check(module(entry), arguments(*[(dtype, (3, size * 2))] * size))


@pytest.mark.parametrize("mode", PLAIN_MODES)
def test_a_broadcast_from_a_device_that_is_known_at_run_time(mode: str) -> None:
    size, groups = PLAIN_MODES[mode]
    entry = (
        "  x = f32[3,2] parameter(0)\n  y = u8[5] parameter(1)\n"
        f"  r = s32[2] constant({{{size - 1}, 0}})\n"
        f"  ROOT t = (f32[3,2], u8[5]) collective-broadcast(x, y, r), {groups}, has_dynamic_root=true"
    )
    check(module(entry), arguments((DTYPES["f32"], (3, 2)), (DTYPES["u8"], (5,))))


def test_a_dynamic_root_needs_groups_of_one_size() -> None:
    entry = (
        "  x = f32[3] parameter(0)\n  r = s32[1] parameter(1)\n"
        "  ROOT t = f32[3] collective-broadcast(x, r), replica_groups={{0}}, has_dynamic_root=true"
    )
    with pytest.raises(HloError, match="all devices are in groups of one size"):
        hloc.compile(module(entry))


@pytest.mark.parametrize("elements", [1, 7, 4096, 4097, 100_003])
def test_arrays_of_all_sizes(elements: int) -> None:
    """Small ones are one piece of work, large ones many, which the threads share."""
    n = elements
    entry = (
        f"  a = f32[{n},2] parameter(0)\n"
        f"  s = f32[{n},2] all-reduce(a), {MODES['both']}, to_apply=f\n"
        f"  g = f32[{n},12] all-gather(a), {MODES['both']}, dimensions={{1}}\n"
        f"  b = f32[{n},1] reduce-scatter(a), {MODES['flattened']}, dimensions={{1}}, to_apply=f\n"
        f"  c = f32[{n},2] all-to-all(a), replica_groups={{}}, dimensions={{1}}\n"
        f"  d = f32[{n},2] collective-permute(a), channel_id=1, source_target_pairs={{{{0,1}},{{1,2}},{{2,0}}}}\n"
        f"  ROOT t = (f32[{n},2], f32[{n},12], f32[{n},1], f32[{n},2], f32[{n},2]) tuple(s, g, b, c, d)"
    )
    check(
        module(entry, reducer(DTYPES["f32"], "add")),
        arguments((DTYPES["f32"], (n, 2))),
        levels=(2,),
    )


def test_empty_arrays_and_variadic_collectives() -> None:
    entry = (
        "  a = s32[0,4] parameter(0)\n  b = s32[3] parameter(1)\n"
        f"  s = (s32[0,4], s32[3]) all-reduce(a, b), {MODES['both']}, to_apply=f\n"
        f"  h = s32[0,24] all-gather(a), {MODES['both']}, dimensions={{1}}\n"
        "  x = s32[3] get-tuple-element(s), index=1\n"
        "  ROOT g = (s32[0,24], s32[3]) tuple(h, x)"
    )
    called = "f { p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(p, q) }\n"
    text = module(entry, called)
    check(text, arguments((DTYPES["s32"], (0, 4)), (DTYPES["s32"], (3,))))


def test_layouts_of_operands_and_results_may_differ() -> None:
    entry = (
        "  a = f32[4,6]{0,1} parameter(0)\n"
        f"  s = f32[4,6]{{1,0}} all-reduce(a), {MODES['both']}, to_apply=f\n"
        f"  g = f32[4,18]{{0,1}} all-gather(s), {MODES['iota']}, dimensions={{1}}\n"
        "  ROOT t = (f32[4,6]{1,0}, f32[4,18]{0,1}) tuple(s, g)"
    )
    check(module(entry, reducer(DTYPES["f32"], "add")), arguments((DTYPES["f32"], (4, 6))))


STARTED = {
    "all-reduce-start": (
        f"  s = f32[6] all-reduce-start(a), {MODES['both']}, to_apply=f\n  b = f32[6] negate(a)\n  d = f32[6] all-reduce-done(s)\n  ROOT r = f32[6] add(b, d)"
    ),
    "pair": (
        f"  s = (f32[6], f32[6]) all-reduce-start(a), {MODES['both']}, to_apply=f\n  ROOT d = f32[6] all-reduce-done(s)"
    ),
    "several": (
        f"  b = f32[6] negate(a)\n  s = (f32[6], f32[6]) all-reduce-start(a, b), {MODES['both']}, to_apply=f\n  ROOT d = (f32[6], f32[6]) all-reduce-done(s)"
    ),
    "all-gather-start": (
        f"  s = (f32[6], f32[36]) all-gather-start(a), {MODES['both']}, dimensions={{0}}\n  ROOT d = f32[36] all-gather-done(s)"
    ),
    "variadic all-gather-start": (
        f"  b = f32[6] negate(a)\n  s = ((f32[6], f32[6]), (f32[36], f32[36])) all-gather-start(a, b), {MODES['both']}, dimensions={{0}}\n  ROOT d = (f32[36], f32[36]) all-gather-done(s)"
    ),
    "collective-permute-start": (
        "  s = (f32[6], f32[6], u32[], u32[]) collective-permute-start(a), channel_id=1, source_target_pairs={{0,1},{1,0}}\n  ROOT d = f32[6] collective-permute-done(s)"
    ),
    "async chain": (
        "  s = ((f32[6]), f32[6]) async-start(a), calls=g\n  u = ((f32[6]), f32[6]) async-update(s)\n  ROOT d = f32[6] async-done(u)"
    ),
    "control dependencies": (
        f"  s = f32[6] all-reduce-start(a), {MODES['iota']}, to_apply=f\n  d = f32[6] all-reduce-done(s)\n  b = f32[6] all-reduce(a), {MODES['both']}, to_apply=f, control-predecessors={{d}}\n  ROOT t = (f32[6], f32[6]) tuple(b, d)"
    ),
}  # fmt: skip
WRAPPED = (
    f"g {{ a = f32[6] parameter(0) ROOT x = f32[6] all-reduce(a), {MODES['iota']}, to_apply=f }}\n"
)


@pytest.mark.parametrize("name", STARTED)
def test_started_collectives(name: str) -> None:
    called = reducer(DTYPES["f32"], "add") + (WRAPPED if "calls=g" in STARTED[name] else "")
    text = module("  a = f32[6] parameter(0)\n" + STARTED[name], called)
    check(text, arguments((DTYPES["f32"], (6,))), levels=(0, 1, 2, 3))


RAGGED = """
  a = f32[6,2] parameter(0)
  o = f32[7,2] parameter(1)
  i = s32[3] parameter(2)
  n = s32[3] parameter(3)
  t = s32[3] parameter(4)
  r = s32[3] parameter(5)
  ROOT x = f32[7,2] ragged-all-to-all(a, o, i, n, t, r), channel_id=1, replica_groups={{0,1,2}}
"""


def ragged_arguments(first_count: int) -> list[list[Any]]:
    args = arguments((DTYPES["f32"], (6, 2)), (DTYPES["f32"], (7, 2)))
    starts = [np.array([0, 2, 3], np.int32)] * DEVICES
    counts = [np.array([first_count, 1, 2], np.int32)] * DEVICES
    targets = [np.array([rank % 3 * 2] * 3, np.int32) for rank in range(DEVICES)]
    return [*args, starts, counts, targets, counts]


def test_ragged_rows() -> None:
    check(module(RAGGED), ragged_arguments(2))


def test_ragged_rows_outside_are_an_error() -> None:
    program = hloc.compile(module(RAGGED))
    with pytest.raises(HloError, match=r"ragged-all-to-all 'x' .*: 9 rows that device . sends"):
        program.run_devices(ragged_arguments(9))
    check(module(RAGGED), ragged_arguments(1), levels=(2,))


LOOP = """
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
below { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[], s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  x = f32[2] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups=%s, to_apply=sum
  ROOT r = (s32[], s32[], f32[2]) tuple(j, n, y) }
"""
LOOP_ENTRY = """
  a = f32[2] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[2]) tuple(zero, n, a)
  w = (s32[], s32[], f32[2]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=2
"""


def loop_arguments(counts: list[int]) -> list[list[Any]]:
    values = [np.array([device, 1], np.float32) for device in range(len(counts))]
    return [values, [np.array(n, np.int32) for n in counts]]


def test_loops_of_other_counts_in_other_groups() -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    check(text, loop_arguments([2, 2, 5, 5]), levels=(0, 1, 2, 3))


def test_loops_of_other_counts_in_one_group_are_a_deadlock() -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    for level in range(4):
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(
            HloError, match="deadlock: no device can continue past all-reduce"
        ) as fault:
            program.run_devices(loop_arguments([2, 2, 5, 4]))
        assert "device 2 at all-reduce" in str(fault.value)
        assert "waiting for device 3" in str(fault.value)
        assert "devices 0-1, 3 at the end of the program" in str(fault.value)
        results = program.run_devices(loop_arguments([1, 1, 1, 1]))  # and works again
        assert [r.tolist() for r in results[0]] == [[1, 2], [1, 2], [5, 2], [5, 2]]


BRANCHES = """
  a = f32[2] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[2] conditional(p, a, a), true_computation=yes, false_computation=no
"""
SUM2 = "sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }\n"


def branch(name: str, work: str) -> str:
    return f"{name} {{ a = f32[2] parameter(0)\n  {work} }}\n"


ALL = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}"


@pytest.mark.parametrize("predicate", [True, False])
def test_branches_of_scalars_stay_apart(predicate: bool) -> None:
    """A branch that becomes a select would let all devices meet, or none."""
    called = SUM2 + (
        f"yes {{ a = f32[] parameter(0)\n  ROOT r = f32[] all-reduce(a), {ALL}, to_apply=sum }}\n"
        "no { a = f32[] parameter(0)\n  ROOT r = f32[] negate(a) }\n"
    )
    entry = BRANCHES.replace("f32[2]", "f32[]")
    text = module(entry, called, "num_partitions=2")
    ones = [np.ones((), np.float32)] * 2
    for level in range(4):
        check(text, [ones, [np.array(predicate)] * 2], levels=(level,))
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(HloError, match="deadlock"):
            program.run_devices([ones, [np.array(predicate), np.array(not predicate)]])


def test_a_branch_that_one_device_does_not_take_is_a_deadlock() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch("no", "ROOT r = f32[2] negate(a)")
    text = module(BRANCHES, called, "num_partitions=2")
    ones = [np.ones(2, np.float32)] * 2
    for level in range(4):
        program = hloc.compile(text, opt_level=level)
        with pytest.raises(HloError, match="device 0 at all-reduce"):
            program.run_devices([ones, [np.array(True), np.array(False)]])
        check(text, [ones, [np.array(True)] * 2], levels=(level,))


def test_branches_with_an_instruction_each_meet() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch(
        "no", f"b = f32[2] negate(a)\n  ROOT r = f32[2] all-reduce(b), {ALL}, to_apply=sum"
    )
    text = module(BRANCHES, called, "num_partitions=2")
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    check(text, args, levels=(0, 1, 2, 3))


def test_another_order_of_collectives_is_a_deadlock() -> None:
    first, second = (
        f"f32[2] all-reduce(%s), channel_id={n}, use_global_device_ids=true, replica_groups={{{{0,1}}}}, to_apply=sum"
        for n in (1, 2)
    )
    called = SUM2 + branch("yes", f"b = {first % 'a'}\n  ROOT r = {second % 'b'}")
    called += branch("no", f"b = {second % 'a'}\n  ROOT r = {first % 'b'}")
    program = hloc.compile(module(BRANCHES, called, "num_partitions=2"))
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    with pytest.raises(HloError, match="deadlock") as fault:
        program.run_devices(args)
    assert "waiting for device 0" in str(fault.value)
    assert "waiting for device 1" in str(fault.value)


def test_devices_that_meet_with_other_shapes_are_an_error() -> None:
    called = SUM2 + branch("yes", f"ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum")
    called += branch(
        "no",
        f"b = f32[1,2] reshape(a)\n  c = f32[1,2] all-reduce(b), {ALL}, to_apply=sum\n  ROOT r = f32[2] reshape(c)",
    )
    program = hloc.compile(module(BRANCHES, called, "num_partitions=2"), opt_level=0)
    args = [[np.ones(2, np.float32)] * 2, [np.array(True), np.array(False)]]
    with pytest.raises(HloError, match=r"f32\[1,2\]"):
        program.run_devices(args)


def test_a_host_function_that_fails_ends_all_devices() -> None:
    def fail_on_two(x: Any) -> Any:
        if x[0] == 2:
            raise ValueError("no twos")
        return x

    hloc.register_custom_call("fails_on_two", fail_on_two)
    entry = (
        '  a = f32[2] parameter(0)\n  b = f32[2] custom-call(a), custom_call_target="fails_on_two"\n'
        "  ROOT r = f32[2] all-reduce(b), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum"
    )
    program = hloc.compile(module(entry, SUM2, "num_partitions=4"))
    values = [np.full(2, device, np.float32) for device in range(4)]
    with pytest.raises(ValueError, match="no twos"):
        program.run_devices([values])
    results = program.run_devices([[np.ones(2, np.float32)] * 4])
    assert [r.tolist() for r in results[0]] == [[4, 4]] * 4


def test_ctrl_c_ends_all_devices() -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    with again_and_again(stop_all), pytest.raises(KeyboardInterrupt):
        program.run_devices(loop_arguments([2**31 - 1] * 4))
    clear_stops()
    program.run_devices(loop_arguments([1] * 4))


def test_the_same_bits_whatever_the_threads_do() -> None:
    entry = "  a = f32[5000] parameter(0)\n  ROOT x = f32[5000] all-reduce(a), channel_id=1, replica_groups={}, to_apply=sum"
    program = hloc.compile(module(entry, SUM2, "num_partitions=8"))
    rng = np.random.default_rng(0)
    args = [[rng.standard_normal(5000).astype(np.float32) for _ in range(8)]]
    first = program.run_devices(args)[0][0].tobytes()
    for _ in range(50):
        assert {part.tobytes() for part in program.run_devices(args)[0]} == {first}


def test_runs_at_the_same_time_do_not_meet_each_other() -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                results = program.run_devices(loop_arguments([3] * 4))
                assert [r.tolist() for r in results[0]] == [[4, 8], [4, 8], [20, 8], [20, 8]]
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_one_array_is_no_run_of_several_devices() -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    with pytest.raises(HloError, match="4 devices"):
        program(np.ones(2, np.float32), np.array(1, np.int32))
    with pytest.raises(HloError, match="needs 4 arrays, one per device"):
        program.run_devices([[np.ones(2, np.float32)], [np.array(1, np.int32)]])


def test_objects_refuse_several_devices() -> None:
    entry = f"  a = f32[2] parameter(0)\n  ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum"
    text = module(entry, SUM2, "num_partitions=2")
    compiled = hloc.compile(hloc.parse(text)).compiled
    assert isinstance(compiled, CpuModule)
    with pytest.raises(HloError, match="an object runs on one device"):
        build_library(compiled)


@pytest.mark.usefixtures("cache_folder")
def test_a_kept_program_needs_no_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    text = module(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    first = hloc.compile(text)
    monkeypatch.setattr("hloc.driver._compiled", lambda *_: pytest.fail("compiled again"))
    second = hloc.compile(text)
    assert second.manifest.exchanges == first.manifest.exchanges != ()
    for program in (first, second):
        results = program.run_devices(loop_arguments([1] * 4))
        assert [r.tolist() for r in results[0]] == [[1, 2], [1, 2], [5, 2], [5, 2]]


PIPELINE = """body { t = (s32[], f32[2], token[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[2] get-tuple-element(t), index=1
  k = token[] get-tuple-element(t), index=2
  r = (f32[2], u32[], token[]) recv(k), channel_id=1, PAIRS
  s = (f32[2], u32[], token[]) send(v, k), channel_id=1, PAIRS
  d = (f32[2], token[]) recv-done(r), channel_id=1, PAIRS
  x = f32[2] get-tuple-element(d), index=0
  e = token[] send-done(s), channel_id=1, PAIRS
  ROOT u = (s32[], f32[2], token[]) tuple(j, x, e) }
below { t = (s32[], f32[2], token[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }
"""
PIPELINE_ENTRY = """
  a = f32[2] parameter(0)
  z = s32[] constant(0)
  k = token[] after-all()
  t = (s32[], f32[2], token[]) tuple(z, a, k)
  w = (s32[], f32[2], token[]) while(t), condition=below, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
"""


def transfers(text: str, pairs: str) -> str:
    return text.replace(
        "PAIRS", f"frontend_attributes={{_xla_send_recv_source_target_pairs={pairs}}}"
    )


@pytest.mark.parametrize("pairs", ["{{0,1},{1,2},{2,3}}", "{{0,1},{1,2},{2,3},{3,0}}"])
def test_transfers_in_a_loop(pairs: str) -> None:
    """In the ring, a schedule that receives before it sends would be a deadlock."""
    text = module(PIPELINE_ENTRY, transfers(PIPELINE, pairs), "num_partitions=4")
    args = arguments((DTYPES["f32"], (2,)), devices=4)
    check(text, args, levels=(0, 1, 2, 3))


CHAIN = """
  a = f32[3] parameter(0)
  k = token[] after-all()
  r = (f32[3], u32[], token[]) recv(k), channel_id=1, PAIRS
  d = (f32[3], token[]) recv-done(r), channel_id=1, PAIRS
  x = f32[3] get-tuple-element(d), index=0
  y = f32[3] add(x, a)
  s = (f32[3], u32[], token[]) send(y, k), channel_id=1, PAIRS
  e = token[] send-done(s), channel_id=1, PAIRS
  ROOT c = f32[3] copy(y)
"""


def test_a_chain_of_devices_each_of_which_needs_the_one_before() -> None:
    text = module(transfers(CHAIN, "{{0,1},{1,2},{2,3}}"), header="num_partitions=4")
    check(text, arguments((DTYPES["f32"], (3,)), devices=4), levels=(0, 1, 2, 3))


def test_transfers_beside_a_started_collective() -> None:
    pair = (
        "  b = (f32[3], f32[3]) collective-permute-start(a), channel_id=2, source_target_pairs={{0,1},{1,0}}, control-predecessors={e}\n"
        "  g = f32[3] collective-permute-done(b)\n  ROOT h = f32[3] add(y, g)\n"
    )
    entry = transfers(CHAIN, "{{0,1}}").replace("  ROOT c = f32[3] copy(y)\n", pair)
    text = module(entry, header="num_partitions=2")
    check(text, arguments((DTYPES["f32"], (3,)), devices=2), levels=(0, 1, 2, 3))


def test_groups_that_do_not_fit_the_shapes_are_refused() -> None:
    """The header names no devices, so only the permutation tells how many there are."""
    entry = (
        "  a = f32[2] parameter(0)\n"
        "  b = f32[2] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{1,0}}\n"
        "  ROOT g = f32[8] all-gather(b), dimensions={0}, replica_groups={}\n"
    )
    text = module(entry, header="entry_computation_layout={(f32[2])->f32[8]}")
    refusal = (
        r"all-gather 'g' makes 8 of 2 elements along dimension 0, but its groups have 1 member"
    )
    with pytest.raises(HloError, match=refusal):
        hloc.compile(text)
    with pytest.raises(HloError, match=refusal):
        evaluate_devices(hloc.parse(text), arguments((DTYPES["f32"], (2,)), devices=2))


def test_devices_that_wait_for_each_other_s_data_are_a_deadlock() -> None:
    program = hloc.compile(module(transfers(CHAIN, "{{0,1},{1,0}}"), header="num_partitions=2"))
    ones = [np.ones(3, np.float32)] * 2
    for _ in range(2):
        with pytest.raises(HloError, match=r"device 0 at recv-done 'd'.*waiting for device 1"):
            program.run_devices([ones])


NEVER_RECEIVED = """
  a = f32[3] parameter(0)
  k = token[] after-all()
  s = (f32[3], u32[], token[]) send(a, k), channel_id=1, PAIRS
  e = token[] send-done(s), channel_id=1, PAIRS
  b = f32[3] negate(a)
  late = (f32[3], u32[], token[]) send(b, e), channel_id=1, PAIRS
  r = (f32[3], u32[], token[]) recv(k), channel_id=1, PAIRS
  d = (f32[3], token[]) recv-done(r), channel_id=1, PAIRS
  f = token[] send-done(late), channel_id=1, PAIRS
  ROOT x = f32[3] get-tuple-element(d), index=0
"""


def test_data_that_is_never_received_does_not_reach_the_next_run() -> None:
    text = module(transfers(NEVER_RECEIVED, "{{0,1}}"), header="num_partitions=2")
    program = hloc.compile(text)
    for value in (1, 2, 3):
        ones = [np.full(3, value, np.float32)] * 2
        (results,) = program.run_devices([ones])
        assert [r.tolist() for r in results] == [[0, 0, 0], [value] * 3]
