"""Compiled programs of several devices give what the evaluator gives, or the same kind of error."""

# One line per instruction, however long.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.aot.linkable import build_library
from hloc.codegen.cpu.backend import CpuModule
from hloc.dtypes import DTYPES, DType
from hloc.errors import HloError
from hloc.evaluator import evaluate_devices
from tests.unit.runtime.device_programs import (
    ALL,
    DEVICES,
    LOOP,
    LOOP_ENTRY,
    SUM2,
    arguments,
    check,
    loop_arguments,
    module_text,
    reducer,
)

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
    check(module_text(entry, reducer(dtype, opcode)), arguments((dtype, dims)))


@pytest.mark.parametrize("opcode", ["add", "multiply", "minimum", "maximum"])
@pytest.mark.parametrize("dtype", [d for d in TYPES if not d.is_complex and not d.is_pred], ids=str)
def test_reducers_of_numbers_keep_nan(dtype: DType, opcode: str) -> None:
    entry = f"  a = {dtype}[37] parameter(0)\n  ROOT x = {dtype}[37] all-reduce(a), {MODES['both']}, to_apply=f"
    check(module_text(entry, reducer(dtype, opcode)), arguments((dtype, (37,))), levels=(2,))


@pytest.mark.parametrize("opcode", ["and", "or", "xor"])
@pytest.mark.parametrize("name", ["pred", "u8", "s32"])
def test_reducers_of_bits(name: str, opcode: str) -> None:
    entry = f"  a = {name}[5] parameter(0)\n  ROOT x = {name}[5] all-reduce(a), {MODES['iota']}, to_apply=f"
    check(
        module_text(entry, reducer(DTYPES[name], opcode)),
        arguments((DTYPES[name], (5,))),
        levels=(2,),
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
    check(module_text(entry, ANY_REDUCERS[name]), arguments((DTYPES["f32"], (11,))))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gathers_along_every_dimension(mode: str, dim: int) -> None:
    dims = [2, 3, 5]
    result = [n * SIZES[mode] if d == dim else n for d, n in enumerate(dims)]
    text = ",".join(map(str, result))
    entry = f"  a = bf16[2,3,5] parameter(0)\n  ROOT x = bf16[{text}] all-gather(a), {MODES[mode]}, dimensions={{{dim}}}"
    check(module_text(entry), arguments((DTYPES["bf16"], (2, 3, 5))))


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
    check(module_text(entry), arguments(*[(dtype, (3, size * 2))] * size))


@pytest.mark.parametrize("mode", PLAIN_MODES)
def test_a_broadcast_from_a_device_that_is_known_at_run_time(mode: str) -> None:
    size, groups = PLAIN_MODES[mode]
    entry = (
        "  x = f32[3,2] parameter(0)\n  y = u8[5] parameter(1)\n"
        f"  r = s32[2] constant({{{size - 1}, 0}})\n"
        f"  ROOT t = (f32[3,2], u8[5]) collective-broadcast(x, y, r), {groups}, has_dynamic_root=true"
    )
    check(module_text(entry), arguments((DTYPES["f32"], (3, 2)), (DTYPES["u8"], (5,))))


def test_a_dynamic_root_needs_groups_of_one_size() -> None:
    entry = (
        "  x = f32[3] parameter(0)\n  r = s32[1] parameter(1)\n"
        "  ROOT t = f32[3] collective-broadcast(x, r), replica_groups={{0}}, has_dynamic_root=true"
    )
    with pytest.raises(HloError, match="all devices are in groups of one size"):
        hloc.compile(module_text(entry))


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
        module_text(entry, reducer(DTYPES["f32"], "add")),
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
    text = module_text(entry, called)
    check(text, arguments((DTYPES["s32"], (0, 4)), (DTYPES["s32"], (3,))))


def test_layouts_of_operands_and_results_may_differ() -> None:
    entry = (
        "  a = f32[4,6]{0,1} parameter(0)\n"
        f"  s = f32[4,6]{{1,0}} all-reduce(a), {MODES['both']}, to_apply=f\n"
        f"  g = f32[4,18]{{0,1}} all-gather(s), {MODES['iota']}, dimensions={{1}}\n"
        "  ROOT t = (f32[4,6]{1,0}, f32[4,18]{0,1}) tuple(s, g)"
    )
    check(module_text(entry, reducer(DTYPES["f32"], "add")), arguments((DTYPES["f32"], (4, 6))))


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
    text = module_text("  a = f32[6] parameter(0)\n" + STARTED[name], called)
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
    check(module_text(RAGGED), ragged_arguments(2))


def test_ragged_rows_outside_are_an_error() -> None:
    program = hloc.compile(module_text(RAGGED))
    with pytest.raises(HloError, match=r"ragged-all-to-all 'x' .*: 9 rows that device . sends"):
        program.run_devices(ragged_arguments(9))
    check(module_text(RAGGED), ragged_arguments(1), levels=(2,))


def test_one_array_is_no_run_of_several_devices() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    program = hloc.compile(text)
    with pytest.raises(HloError, match="4 devices"):
        program(np.ones(2, np.float32), np.array(1, np.int32))
    with pytest.raises(HloError, match="needs 4 arrays, one per device"):
        program.run_devices([[np.ones(2, np.float32)], [np.array(1, np.int32)]])


def test_objects_refuse_several_devices() -> None:
    entry = f"  a = f32[2] parameter(0)\n  ROOT r = f32[2] all-reduce(a), {ALL}, to_apply=sum"
    text = module_text(entry, SUM2, "num_partitions=2")
    compiled = hloc.compile(hloc.parse(text)).compiled
    assert isinstance(compiled, CpuModule)
    with pytest.raises(HloError, match="an object runs on one device"):
        build_library(compiled)


@pytest.mark.usefixtures("cache_folder")
def test_a_kept_program_needs_no_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", "num_partitions=4")
    first = hloc.compile(text)
    monkeypatch.setattr("hloc.driver._compiled", lambda *_: pytest.fail("compiled again"))
    second = hloc.compile(text)
    assert second.manifest.exchanges == first.manifest.exchanges != ()
    for program in (first, second):
        results = program.run_devices(loop_arguments([1] * 4))
        assert [r.tolist() for r in results[0]] == [[1, 2], [1, 2], [5, 2], [5, 2]]


def test_groups_that_do_not_fit_the_shapes_are_refused() -> None:
    """The header names no devices, so only the permutation tells how many there are."""
    entry = (
        "  a = f32[2] parameter(0)\n"
        "  b = f32[2] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{1,0}}\n"
        "  ROOT g = f32[8] all-gather(b), dimensions={0}, replica_groups={}\n"
    )
    text = module_text(entry, header="entry_computation_layout={(f32[2])->f32[8]}")
    refusal = (
        r"all-gather 'g' makes 8 of 2 elements along dimension 0, but its groups have 1 member"
    )
    with pytest.raises(HloError, match=refusal):
        hloc.compile(text)
    with pytest.raises(HloError, match=refusal):
        evaluate_devices(hloc.parse(text), arguments((DTYPES["f32"], (2,)), devices=2))
