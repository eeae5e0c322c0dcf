"""What the processes of a test's job run: `python -m tests.mpi.program CASE`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import hloc
from hloc.errors import HloError
from hloc.evaluator import evaluate_devices
from hloc.ir.module import Module
from hloc.runtime.communicator.mpi.call_lists import ExchangeOptions
from hloc.runtime.communicator.mpi.communicator import MpiEngine
from hloc.runtime.custom_calls import register_custom_call
from tests.unit.runtime.communicator.test_mpi_calls import (
    COLLECTIVES,
    arguments_of,
    module_of,
    ragged,
)
from tests.unit.runtime.device_programs import (
    CHAIN,
    NEVER_RECEIVED,
    PIPELINE,
    PIPELINE_ENTRY,
    transfers,
)
from tests.waiting import PATIENCE

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

DEVICES = 4
_HEAD = f"HloModule m, num_partitions={DEVICES}\n"
_ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
_SUM = (
    "f32[4] all-reduce(a), replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true, "
    "to_apply=add"
)
_FIRST = "f32[4] collective-broadcast(a), replica_groups={{0,1,2,3}}, channel_id=1"
CALLS_HOST = f"""{_HEAD}{_ADD}
ENTRY main {{
  p = f32[4] parameter(0)
  a = f32[4] custom-call(p), custom_call_target="test.mpi"
  ROOT r = {_SUM}
}}
"""


def branches(taken: str, other: str) -> str:
    """Return a module of which device 1 runs `taken` and the others run `other`."""
    return f"""{_HEAD}{_ADD}
taken {{
  a = f32[4] parameter(0)
  ROOT x = {taken}
}}
other {{
  a = f32[4] parameter(0)
  ROOT y = {other}
}}
ENTRY main {{
  p = f32[4] parameter(0)
  i = u32[] partition-id()
  one = u32[] constant(1)
  is_one = pred[] compare(i, one), direction=EQ
  ROOT r = f32[4] conditional(is_one, p, p), true_computation=taken, false_computation=other
}}
"""


SOMETIMES = """
sends { a = f32[3] parameter(0)
  k = token[] after-all()
  s = (f32[3], u32[], token[]) send(a, k), channel_id=1, PAIRS
  e = token[] send-done(s), channel_id=1, PAIRS
  ROOT z = f32[3] negate(a) }
quiet { a = f32[3] parameter(0) ROOT z = f32[3] negate(a) }
ENTRY main {
  a = f32[3] parameter(0)
  wanted = pred[] parameter(1)
  c = f32[3] conditional(wanted, a, a), true_computation=sends, false_computation=quiet
  k = token[] after-all()
  r = (f32[3], u32[], token[]) recv(k), channel_id=1, PAIRS
  d = (f32[3], token[]) recv-done(r), channel_id=1, PAIRS
  x = f32[3] get-tuple-element(d), index=0
  ROOT y = f32[3] add(x, c)
}
"""


def run_own(engine: MpiEngine, text: str, size: int = 4) -> None:
    """Run a module of one f32[size] on the devices of this process."""
    executable = hloc.compile(text)
    executable.use_engine(engine)
    count = DEVICES // engine.library.processes
    executable.run_devices([[np.ones(size, np.float32)] * count])


def compare(engine: MpiEngine, module: Module, arguments: list[list[Array]], name: str) -> None:
    """Run a module twice and compare it with the evaluator, bit by bit."""
    own = slice(*(DEVICES // engine.library.processes * (engine.library.rank + k) for k in (0, 1)))
    executable = hloc.compile(module)
    executable.use_engine(engine)
    for _ in range(2):
        found = executable.run_devices([parts[own] for parts in arguments])
        want = [parts[own] for parts in evaluate_devices(module, arguments)]
        for mine, theirs in zip(found, want, strict=True):
            for x, y in zip(mine, theirs, strict=True):
                assert x.tobytes() == y.tobytes(), f"{name}: {x} is not {y}"


def equal(engine: MpiEngine) -> None:
    """Run all collectives, `send` and `recv`."""
    for name in COLLECTIVES:
        module = module_of(name)
        compare(engine, module, arguments_of(module), name)
    compare(engine, *ragged(), "ragged")
    chain, ring = "{{0,1},{1,2},{2,3}}", "{{0,1},{1,2},{2,3},{3,0}}"
    large = 300_000  # more than MPI sends before the receiver is there
    for size in (3, 100 if engine.options.most_bytes < large else large):
        sized = transfers(CHAIN, chain).replace("f32[3]", f"f32[{size}]")
        compare_text(engine, f"{_HEAD}ENTRY e {{ {sized} }}", size)
    for pairs in (chain, ring):
        entry = f"{transfers(PIPELINE, pairs)}ENTRY e {{ {PIPELINE_ENTRY} }}"
        compare_text(engine, f"{_HEAD}{entry}", 2)
    never = transfers(NEVER_RECEIVED, ring)
    compare_text(engine, f"{_HEAD}ENTRY e {{ {never} }}", 3)


def compare_text(engine: MpiEngine, text: str, size: int) -> None:
    """Run a module of one f32[size] and compare it with the evaluator."""
    values = [np.arange(size, dtype=np.float32) + 10 * device for device in range(DEVICES)]
    compare(engine, hloc.parse(text), [values], text)


def transfer_deadlock(engine: MpiEngine) -> None:
    """Let devices 0 and 1 wait for each other's data."""
    run_own(engine, f"{_HEAD}ENTRY e {{ {transfers(CHAIN, '{{0,1},{1,0}}')} }}", 3)


def transfer_missing(engine: MpiEngine) -> None:
    """Let device 0 send nothing in the first run, and in the second at once."""
    executable = hloc.compile(f"{_HEAD}{transfers(SOMETIMES, '{{0,1}}')}")
    executable.use_engine(engine)
    ones = [np.ones(3, np.float32)] * (DEVICES // engine.library.processes)
    for wanted in (True, False, True):
        executable.run_devices([ones, [np.bool_(wanted)] * len(ones)])


def pieces(engine: MpiEngine) -> None:
    """Do the same with messages of at most 20 bytes."""
    engine.options = ExchangeOptions(most_bytes=20)
    equal(engine)


def deadlock(engine: MpiEngine) -> None:
    """Let device 1 alone come to an all-reduce."""
    run_own(engine, branches(_SUM, "f32[4] negate(a)"))
    time.sleep(PATIENCE)


def mismatch(engine: MpiEngine) -> None:
    """Let device 1 come to another collective than the others."""
    run_own(engine, branches(_SUM, _FIRST))


def overdue(engine: MpiEngine) -> None:
    """Let all wait for process 0, which is busy."""
    engine.limit_seconds = 0.5

    def wait(array: Array) -> Array:
        time.sleep(PATIENCE * (engine.library.rank == 0))
        return array

    register_custom_call("test.mpi", wait)
    run_own(engine, CALLS_HOST)


def host_fault(engine: MpiEngine) -> None:
    """Let a function of the host fail on process 0."""

    def fail(array: Array) -> Array:
        if engine.library.rank == 0:
            raise HloError("the host of process 0 failed")
        return array

    register_custom_call("test.mpi", fail)
    run_own(engine, CALLS_HOST)


def other_module(engine: MpiEngine) -> None:
    """Let process 2 bring another module."""
    what = _FIRST if engine.library.rank == 2 else _SUM
    run_own(engine, f"{_HEAD}{_ADD}ENTRY e {{ a = f32[4] parameter(0) ROOT r = {what} }}")


def killed(engine: MpiEngine) -> None:
    """Let process 2 be killed while the others wait for it."""
    if engine.library.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    run_own(engine, f"{_HEAD}{_ADD}ENTRY e {{ a = f32[4] parameter(0) ROOT r = {_SUM} }}")


CASES: dict[str, Callable[[MpiEngine], None]] = {
    case.__name__: case
    for case in (
        equal,
        pieces,
        deadlock,
        transfer_deadlock,
        transfer_missing,
        mismatch,
        overdue,
        host_fault,
        other_module,
        killed,
    )
}


def main(case: str) -> None:
    """Run a case; an error ends the job."""
    engine = MpiEngine()
    try:
        CASES[case](engine)
    except HloError as error:
        engine.end_job(error)
    print(f"process {engine.library.rank} is done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
