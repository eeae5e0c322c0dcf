"""Programs of several GPUs, on simulated ones: every collective, transfers, faults, and an end.

The simulation takes sums from the last rank to the first, so bits that equal the evaluator's show
that hloc adds by itself wherever the order counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.codegen.gpu.exchange_form import to_exchange_form
from hloc.errors import HloError, UnsupportedError
from hloc.evaluator import evaluate_devices
from hloc.ir.device_groups import module_devices
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.runtime.communicator.nccl.library import NcclLibrary, installed_library
from hloc.runtime.gpu import devices_executable
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import CudaDriver
from hloc.runtime.gpu.devices_executable import GpuDevicesExecutable
from tests.tolerance import assert_close
from tests.unit.gpu.fake_nccl import FakeNccl, OneOfSeveral
from tests.unit.runtime.communicator.test_mpi_calls import (
    COLLECTIVES,
    arguments_of,
    module_of,
    ragged,
)
from tests.unit.runtime.device_programs import (
    CHAIN,
    LOOP,
    LOOP_ENTRY,
    NEVER_RECEIVED,
    PIPELINE,
    PIPELINE_ENTRY,
    loop_arguments,
    module_text,
    transfers,
)
from tests.waiting import again_and_again

RING, ROW = "{{0,1},{1,2},{2,3},{3,0}}", "{{0,1},{1,2},{2,3}}"
FOUR = "num_partitions=4"


def case(name: str) -> tuple[Module, list[list[Any]]]:
    if name == "ragged":
        return ragged()
    module = module_of(name)
    return module, arguments_of(module)


def compiled(module: Module | str, simulate: str = "host", **options: Any) -> GpuDevicesExecutable:
    program = hloc.compile(module, target="nvptx64", simulate=simulate, **options)
    assert isinstance(program, GpuDevicesExecutable)
    return program


def assert_same(found: list[list[Any]], wanted: list[list[Any]], *, nan_bits: bool = True) -> None:
    """Compare bits; those of NaN differ between GPUs and CPUs."""
    for mine, theirs in zip(found, wanted, strict=True):
        for x, y in zip(mine, theirs, strict=True):
            assert x.dtype == y.dtype
            same = x.tobytes() == y.tobytes()
            assert same or (not nan_bits and np.array_equal(x, y, equal_nan=True)), f"{x}\n{y}"


@pytest.mark.parametrize("fast", [False, True], ids=["", "fast"])
@pytest.mark.parametrize("name", [*COLLECTIVES, "ragged"])
def test_the_form_for_nccl_means_the_same(name: str, fast: bool) -> None:
    module, arguments = case(name)
    wanted = evaluate_devices(module, arguments)
    to_exchange_form(module, fast=fast)
    verify(module)
    assert_same(evaluate_devices(module, arguments), wanted)


@pytest.mark.parametrize("name", [*COLLECTIVES, "ragged"])
def test_every_collective_gives_the_bits_of_the_evaluator(name: str) -> None:
    module, arguments = case(name)
    program = compiled(module)
    for _ in range(2):
        assert_same(program.run_devices(arguments), evaluate_devices(module, arguments))


@pytest.mark.parametrize("name", ["all-reduce", "inner reduce-scatter", "any reducer", "permute"])
def test_ptx_and_the_code_of_other_gpus_exchange_data_too(name: str) -> None:
    module, arguments = case(name)
    wanted = evaluate_devices(module, arguments)
    found = compiled(module, "ptx").run_devices(arguments)
    assert_same(found, wanted, nan_bits=False)
    amd = hloc.compile(module, target="amdgcn", simulate="host")
    assert isinstance(amd, GpuDevicesExecutable)
    assert_same(amd.run_devices(arguments), wanted)


def test_nccl_sums_itself_where_the_order_cannot_change_the_bits_or_may() -> None:
    def exchanged(name: str, **options: Any) -> list[str]:
        plan = compiled(module_of(name), **options).compiled.plan
        return [exchange.opcode for exchange in plan.exchanges]

    assert exchanged("all-reduce") == ["all-gather"]
    assert exchanged("large all-reduce") == ["all-to-all", "all-gather"]
    assert exchanged("all-reduce", fast_collectives=True) == ["all-reduce"]
    assert exchanged("all-reduce of two") == exchanged("integers") == ["all-reduce"]
    assert exchanged("maximum keeps NaN", fast_collectives=True) == ["all-gather"]
    assert exchanged("bf16 in f32", fast_collectives=True) == ["all-gather"]
    assert exchanged("inner reduce-scatter") == ["reduce-scatter"]


def test_sums_in_an_order_of_nccl_are_close() -> None:
    for name in ("large all-reduce", "reduce-scatter"):
        module, arguments = case(name)
        found = compiled(module, fast_collectives=True).run_devices(arguments)
        wanted = evaluate_devices(module, arguments)
        for x, y in zip(found[0], wanted[0], strict=True):
            assert_close(x, y)


@pytest.mark.parametrize(
    "text",
    [
        module_text(transfers(CHAIN, ROW).replace("f32[3]", "f32[2]"), header=FOUR),
        module_text(transfers(NEVER_RECEIVED, RING).replace("f32[3]", "f32[2]"), header=FOUR),
        module_text(PIPELINE_ENTRY, transfers(PIPELINE, RING), FOUR),
        module_text(PIPELINE_ENTRY, transfers(PIPELINE, ROW), FOUR),
    ],
    ids=["chain", "never-received", "ring", "row"],
)
def test_transfers_between_devices(text: str) -> None:
    values = [[np.arange(2, dtype=np.float32) + 10 * device for device in range(4)]]
    program = compiled(text)
    for _ in range(3):
        assert_same(program.run_devices(values), evaluate_devices(hloc.parse(text), values))


def test_loops_of_groups_may_run_unequally_often() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", FOUR)
    arguments = loop_arguments([1, 1, 3, 3])
    wanted = evaluate_devices(hloc.parse(text), arguments)
    assert_same(compiled(text).run_devices(arguments), wanted)


def test_a_deadlock_names_devices_and_instructions_and_the_program_runs_on() -> None:
    text = module_text(LOOP_ENTRY, LOOP % "{{0,1},{2,3}}", FOUR)
    program = compiled(text)
    for _ in range(2):
        with pytest.raises(HloError, match=r"deadlock") as found:
            program.run_devices(loop_arguments([1, 2, 1, 1]))
        assert "device 1 at all-" in str(found.value)
        assert "waiting for device 0" in str(found.value)
        program.run_devices(loop_arguments([1] * 4))


def test_whole_arrays_are_cut_and_joined() -> None:
    text = """HloModule m, num_partitions=4
    ENTRY e {
      x = f32[2,3] parameter(0), sharding={devices=[4,1]<=[4]}
      ROOT g = f32[8,3] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}, channel_id=1,
        use_global_device_ids=true, sharding={replicated}
    }"""
    whole = np.arange(24, dtype=np.float32).reshape(8, 3)
    (found,) = compiled(text)(whole)
    np.testing.assert_array_equal(found, whole)


def test_a_fault_of_one_device_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(module_of("all-reduce"))

    def fail(*_: Any) -> None:
        raise HloError("the memory of device 2 is broken")

    monkeypatch.setattr(program._places[2], "_call", fail)
    with pytest.raises(HloError, match="device 2 is broken"):
        program.run_devices(arguments_of(module_of("all-reduce")))


def test_stopping_ends_a_loop_without_end() -> None:
    text = """HloModule m, num_partitions=2
    again { s = s32[] parameter(0) ROOT yes = pred[] constant(true) }
    body { s = s32[] parameter(0) i = u32[] partition-id() j = s32[] convert(i)
      ROOT t = s32[] add(s, j) }
    ENTRY main { x = s32[] parameter(0)
      ROOT w = s32[] while(x), condition=again, body=body }"""
    program = compiled(text)
    with (
        again_and_again(program._communicator.stop),
        pytest.raises(HloError, match="stopped"),
    ):
        program.run_devices([[np.int32(0)] * 2])


MODES = {
    "replicas": "replica_groups={{1,0}}",
    "both": "replica_groups={{0,1}}, channel_id=1, use_global_device_ids=false",
    "flattened": "replica_groups={{5,0,2},{1,3,4}}, channel_id=1, use_global_device_ids=true",
}


@pytest.mark.parametrize(("mode", "members"), [("replicas", 2), ("both", 6), ("flattened", 3)])
def test_groups_of_every_mode_among_replicas_and_partitions(mode: str, members: int) -> None:
    """An all-to-all takes no flattened ids; sums scattered over such groups go another way."""
    text = f"""HloModule m, replica_count=2, num_partitions=3
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
    ENTRY e {{ x = f32[2,{members * 2}] parameter(0)
      s = f32[2,2] reduce-scatter(x), {MODES[mode]}, dimensions={{1}}, to_apply=add
      t = f32[2,{members * 2}] all-reduce(x), {MODES[mode]}, to_apply=add
      g = f32[2,{members * 2}] all-gather(s), {MODES[mode]}, dimensions={{1}}
      ROOT r = (f32[2,2], f32[2,{members * 2}], f32[2,{members * 2}]) tuple(s, t, g) }}"""
    rng = np.random.default_rng(5)
    values = [[rng.standard_normal((2, members * 2)).astype(np.float32) for _ in range(6)]]
    assert_same(compiled(text).run_devices(values), evaluate_devices(hloc.parse(text), values))


def test_sums_of_unequal_groups_need_nccl_s_own() -> None:
    text = """HloModule m, num_partitions=3
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] all-reduce(x),
      replica_groups={{0,2},{1}}, channel_id=1, use_global_device_ids=true, to_apply=add }"""
    arguments = [[np.full(2, d, np.float32) for d in range(3)]]
    found = compiled(text).run_devices(arguments)
    assert_same(found, evaluate_devices(hloc.parse(text), arguments))
    wide = text.replace("num_partitions=3", "num_partitions=4").replace("{0,2}", "{0,2,3}")
    with pytest.raises(UnsupportedError, match="unequal sizes need --fast-collectives"):
        compiled(wide)
    assert compiled(wide, fast_collectives=True)


def test_the_command_runs_it_and_says_what_is_missing(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sum.hlo"
    path.write_text(str(module_of("all-reduce")))
    words = ["run", str(path), "--devices=4", "--random", "-q", "--target=nvptx64"]
    assert main([*words, "--engine=nccl", "--simulate=host", "--compare-with=interp"]) == 0
    assert "out0 on devices 0-3" in capsys.readouterr().out
    assert main([*words, "--engine=local"]) != 0
    assert "--engine=local is for the target cpu" in capsys.readouterr().err
    assert main([*words[:-1], "--engine=nccl"]) != 0
    assert "it needs a target such as --target=nvptx64" in capsys.readouterr().err


def on_fake_gpus(module: Module, seed: int, **options: Any) -> tuple[Any, FakeNccl]:
    """Load a module on CUDA devices whose drivers, and NCCL, are fakes."""
    compiled_module = compiled(module, "ptx", **options).compiled
    counts = module_devices(module)
    drivers = [OneOfSeveral(seed=seed + number) for number in range(counts.total)]
    devices = [CudaDevice(CudaDriver(driver), sync=False) for driver in drivers]
    library = FakeNccl(drivers)
    streams = [device.stream for device in devices]
    nccl = NcclLibrary(library, range(counts.total), streams)
    return GpuDevicesExecutable(compiled_module, devices, nccl, counts), library


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "name",
    ["large all-reduce", "inner reduce-scatter", "inner all-to-all", "all-to-all of arrays",
     "broadcast", "permute", "ragged"],
)  # fmt: skip
def test_collectives_lie_on_the_streams_of_their_devices(name: str, seed: int) -> None:
    module, arguments = case(name)
    program, library = on_fake_gpus(module, seed)
    for _ in range(2):
        found = program.run_devices(arguments)
        assert_same(found, evaluate_devices(module, arguments), nan_bits=False)
    assert library.living
    program._communicator.close()
    assert not library.living


def test_transfers_lie_on_the_streams_of_their_devices() -> None:
    module = hloc.parse(module_text(PIPELINE_ENTRY, transfers(PIPELINE, RING), FOUR))
    values = [[np.arange(2, dtype=np.float32) + 10 * device for device in range(4)]]
    program, library = on_fake_gpus(module, 1)
    for _ in range(2):
        assert_same(program.run_devices(values), evaluate_devices(module, values))
    assert {"ncclSend", "ncclRecv"} <= set(library.calls)


def test_what_nccl_says_ends_the_run() -> None:
    module, arguments = case("integers")
    program, library = on_fake_gpus(module, 0)
    library.refuse = "ncclAllReduce"
    with pytest.raises(HloError, match="ncclAllReduce: invalid usage"):
        program.run_devices(arguments)
    library.refuse = ""
    assert_same(program.run_devices(arguments), evaluate_devices(module, arguments))


def test_without_gpus_or_nccl_the_words_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gpus(count: int) -> Any:
        raise UnsupportedError(f"{count} devices need as many GPUs, and this machine has 1")

    monkeypatch.setattr(devices_executable, "first_devices", no_gpus)
    with pytest.raises(UnsupportedError, match=r"4 devices cannot run here: .* this machine has 1"):
        hloc.compile(module_of("integers"), target="nvptx64")
    monkeypatch.setattr("hloc.runtime.communicator.nccl.library._NAME", "no-such-library.so")
    installed_library.cache_clear()
    with pytest.raises(UnsupportedError, match="NCCL, which is not installed") as found:
        installed_library()
    assert "pip install 'hloc[nccl]'" in str(found.value)
    installed_library.cache_clear()
