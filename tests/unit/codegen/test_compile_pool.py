"""Several processes compile what one does: equal objects, faults told once, nothing left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import pytest

from hloc import child_process
from hloc.child_process import Child
from hloc.codegen.llvm import compile_pool
from hloc.codegen.llvm.compile_pool import Unit, compile_units, helpers_for, process_count
from hloc.codegen.llvm.object_child import object_of_child
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import available_cores, host_target
from hloc.errors import HloError, InternalError
from hloc.framing import read_message
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[3]


def _unit(number: int, level: int = 1) -> Unit:
    body = "\n".join(f"  %x{i + 1} = mul i32 %x{i}, {number + i}" for i in range(5 + number))
    return Unit(f"define i32 @f{number}(i32 %x0) {{\n{body}\n  ret i32 %x{5 + number}\n}}\n", level)


UNITS = [_unit(i, level) for i, level in enumerate([1, 0, -1, 2, 1, -2, 3, 1])]


def _here(unit: Unit) -> bytes:
    return compile_object(unit.text, host_target(), unit.level)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


@pytest.mark.parametrize("helpers", [0, 1, 2])
def test_objects_and_their_order_are_those_of_one_process(helpers: int) -> None:
    before = _children()
    made = compile_units(UNITS, host_target(), frozenset(), _here, helpers)
    assert made == [_here(unit) for unit in UNITS]
    assert _children() == before


def test_helpers_do_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[Unit] = []
    answers: list[object] = []
    helped = threading.Event()

    def answered(stream: IO[bytes]) -> tuple[Any, list[bytearray]]:
        answers.append(answer := read_message(stream))
        if len(answers) > 1:  # the first says that it has started
            helped.set()
        return answer

    def patient(unit: Unit) -> bytes:
        here.append(unit)
        assert helped.wait(PATIENCE)
        return _here(unit)

    monkeypatch.setattr(child_process, "read_message", answered)
    made = compile_units(UNITS * 4, host_target(), frozenset(), patient, 1)
    assert len(here) < len(made)
    assert made == [_here(unit) for unit in UNITS] * 4


def test_the_longest_unit_does_not_wait_for_a_helper_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here: list[Unit] = []
    begun = threading.Event()

    def late(child: Child, text: str, *rest: Any) -> bytes | None:
        assert begun.wait(PATIENCE)
        return object_of_child(child, text, *rest)

    def noted(unit: Unit) -> bytes:
        here.append(unit)
        begun.set()
        return _here(unit)

    monkeypatch.setattr(compile_pool, "object_of_child", late)
    compile_units(UNITS, host_target(), frozenset(), noted, 1)
    assert here[0] == max(UNITS, key=lambda unit: unit.seconds)


def test_a_fault_is_told_as_by_one_process() -> None:
    units = [*UNITS, Unit("define void @wrong() { ret i32 1 }", 0)]
    with pytest.raises(InternalError, match="generated LLVM IR is invalid"):
        compile_units(units, host_target(), frozenset(), _here, 1)
    asks = Unit("declare void @system()\ndefine void @f() {\n call void @system()\n ret void\n}", 0)
    with pytest.raises(InternalError, match="unknown symbols: system"):
        compile_units([*UNITS, asks], host_target(), frozenset(), _here, 1)
    assert compile_units([asks], host_target(), frozenset({"system"}), lambda _: b"", 1)


def test_a_helper_that_dies_or_never_starts_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [_here(unit) for unit in UNITS]
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert compile_units(UNITS, host_target(), frozenset(), _here, 1) == expected
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert compile_units(UNITS, host_target(), frozenset(), _here, 2) == expected


def test_no_helper_is_left_where_threads_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = _children()
    monkeypatch.setattr(threading.Thread, "start", refused)
    made = compile_units(UNITS, host_target(), frozenset(), _here, 2)
    assert made == [_here(unit) for unit in UNITS]
    assert _children() == before


def test_a_search_path_that_python_passes_over_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, Path("somewhere")])
    assert len(compile_units(UNITS, host_target(), frozenset(), _here, 1)) == len(UNITS)


def test_helpers_end_when_the_work_is_broken_off() -> None:
    def interrupted(unit: Unit) -> bytes:
        raise KeyboardInterrupt

    before = _children()
    with pytest.raises(KeyboardInterrupt):
        compile_units(UNITS, host_target(), frozenset(), interrupted, 2)
    assert _children() == before


def test_helpers_start_only_where_there_is_work_for_them() -> None:
    long = Unit("x" * 1_000_000, 2)
    short = Unit("x" * 1_000, 2)
    assert helpers_for([], 8) == 0
    assert helpers_for([long], 8) == 0
    assert helpers_for([long, short], 8) == 0
    assert helpers_for([short] * 20, 8) == 0
    assert helpers_for([long, long], 8) == 1
    assert helpers_for([long] * 20, 8) == 7
    assert helpers_for([long] * 20, 1) == 0


def test_the_number_of_processes_comes_from_options_and_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(compile_pool.VARIABLE, raising=False)
    load = [0.0]
    monkeypatch.setattr(os, "getloadavg", lambda: (load[0], 9, 9), raising=False)
    assert process_count() == available_cores()
    assert process_count(threads=1) == 1
    monkeypatch.setenv(compile_pool.VARIABLE, "3")
    assert process_count() == process_count(threads=1) == 3
    monkeypatch.setenv(compile_pool.VARIABLE, "0")
    assert process_count() == available_cores()
    load[0] = 100.0
    assert process_count() == 1
    monkeypatch.setenv(compile_pool.VARIABLE, "3")
    assert process_count() == 3
    for wrong in ("many", "1" * 5000):
        monkeypatch.setenv(compile_pool.VARIABLE, wrong)
        with pytest.raises(HloError, match="HLOC_COMPILE_PROCESSES must be a number"):
            process_count()


def test_a_frozen_program_has_no_python_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compile_pool.VARIABLE, "4")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert process_count() == 1


_WAITS = """
import time
from hloc.codegen.llvm.compile_pool import Unit, compile_units
from hloc.codegen.llvm.target import host_target

def forever(unit):
    print("begun", flush=True)
    time.sleep(3600)

text = "define void @f() { ret void }"
compile_units([Unit(text, 0)] * 2, host_target(), frozenset(), forever, 1)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_helper_outlives_its_parent(number: signal.Signals) -> None:
    """Ctrl-C reaches the whole group; a parent that is killed closes the pipe at least."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _WAITS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"begun\n"
    os.killpg(parent.pid, number) if number == signal.SIGINT else parent.kill()
    parent.wait(PATIENCE)
    parent.stdout.close()
    try:
        wait_until(lambda: _is_empty(parent.pid), "the helper ends")
    finally:
        if not _is_empty(parent.pid):
            os.killpg(parent.pid, signal.SIGKILL)


def _is_empty(group: int) -> bool:
    """Return whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False
