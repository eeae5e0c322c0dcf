"""Kernels on several threads: the same bits as on one, and a pool that does not get in the way."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.codegen.cpu import split_kernel
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.emitters.movement import scatter
from hloc.codegen.cpu.thread_pool import NEEDED, RUN, STOP
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import available_cores, host_target
from hloc.errors import HloError
from hloc.evaluator.run import evaluate_module
from hloc.options import CompileOptions
from hloc.runtime import host_programs
from hloc.runtime.arena import clear_stops, stop_all
from hloc.runtime.cpu_loader import LoadedCode, load_functions
from hloc.runtime.executable import Executable
from hloc.runtime.threads import pool_unit, thread_count
from tests.inputs import inputs_for
from tests.lent_threads import (
    FILES,
    ROOT,
    ParallelFor,
    Task,
    last_worker_alone,
    lend_threads,
)
from tests.tolerance import assert_close, bounds
from tests.unit.codegen.test_thread_simulation import LOOP
from tests.waiting import PATIENCE, again_and_again, all_at_once, wait_until

Array = np.ndarray[Any, np.dtype[Any]]
LARGE = """HloModule m
ENTRY e {
  x = f32[700,1300] parameter(0)
  y = f32[700,1300] exponential(x)
  ROOT r = f32[1300,700] transpose(y), dimensions={1,0}
}"""
ROWS = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[37,20000] parameter(0)
  ROOT s = f32[37,20000] sort(x), dimensions={1}, to_apply=less
}"""
"""Rows too long for the stack, so that every thread needs memory of its own."""

PRODUCTS = {
    "columns": ("f32[150,130]", "f32[130,300]", "f32[150,300]", 1, 0),
    "rows": ("f32[500,70]", "f32[70,90]", "f32[500,90]", 1, 0),
    "transposed": ("f32[130,150]", "f32[300,130]", "f32[150,300]", 0, 1),
    "few columns": ("f32[100,1000]", "f32[1000,100]", "f32[100,100]", 1, 0),
    "few rows of few columns": ("f32[49,960]", "f32[960,160]", "f32[49,160]", 1, 0),
    "few rows": ("f32[4,512]", "f32[512,1040]", "f32[4,1040]", 1, 0),
    "along k": ("f32[3,512]", "f32[1001,512]", "f32[3,1001]", 1, 1),
    "bf16": ("bf16[100,200]", "bf16[200,300]", "bf16[100,300]", 1, 0),
    "f64": ("f64[100,200]", "f64[200,301]", "f64[100,301]", 1, 0),
    "bytes": ("s8[100,200]", "s8[200,300]", "s32[100,300]", 1, 0),
    "long k": ("f32[40,3000]", "f32[3000,200]", "f32[40,200]", 1, 0),
}


COLUMNS = {
    "columns": "ROOT r = f32[300] reduce(x, z), dimensions={0,1}, to_apply=add",
    "columns that are computed": """y = f32[1,70,300] tanh(x)
      ROOT r = f32[1,300] reduce(y, z), dimensions={1}, to_apply=add""",
    "several sums of columns": """y = f32[1,70,300] multiply(x, x)
      s = f32[1,300] reduce(x, z), dimensions={1}, to_apply=add
      t = f32[1,300] reduce(y, z), dimensions={1}, to_apply=add
      ROOT r = (f32[1,300], f32[1,300]) tuple(s, t)""",
    "running sums of columns": """y = f32[70,320] parameter(1)
      ROOT r = f32[70,320] reduce-window(y, z), window={size=70x1 pad=69_0x0_0}, to_apply=add""",
    "running sums of columns that are computed": """y = f32[70,1280] parameter(1)
      u = f32[70,1280] exponential(y)
      v = f32[70,1280] tanh(u)
      w = f32[70,1280] cosine(v)
      ROOT r = f32[70,1280] reduce-window(w, z), window={size=70x1 pad=69_0x0_0}, to_apply=add""",
}


def reduced(name: str) -> str:
    return f"""HloModule m
    add {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }}
    ENTRY e {{
      x = f32[1,70,300] parameter(0)
      z = f32[] constant(0)
      {COLUMNS[name]} }}"""


SCATTERS = {
    "rows": ("f32[50,64]", "s32[300,1]", "f32[300,64]", "{1}", "{0}"),
    "rows of which many meet": ("f32[2,96]", "s32[9000,1]", "f32[9000,96]", "{1}", "{0}"),
    "rows of which few meet": ("f32[900,96]", "s32[9000,1]", "f32[9000,96]", "{1}", "{0}"),
    "narrow rows": ("bf16[7,128]", "s32[5000,1]", "bf16[5000,128]", "{1}", "{0}"),
    "matrices": ("f32[9,12,16]", "s32[5000,1]", "f32[5000,12,16]", "{1,2}", "{0}"),
    "columns": ("f32[96,50]", "s32[300,1]", "f32[300,96]", "{1}", "{1}"),
    "matrices of columns": ("f32[12,16,9]", "s32[5000,1]", "f32[5000,12,16]", "{1,2}", "{2}"),
    "windows": ("s32[20,64]", "s32[30,1]", "s32[30,2,64]", "{1,2}", "{}"),
}


def scattered(name: str) -> str:
    operand, indices, updates, window, inserted = SCATTERS[name]
    dtype, indexed = operand.split("[")[0], "{0}" if inserted == "{}" else inserted
    return f"""HloModule m
    add {{ a = {dtype}[] parameter(0)
      b = {dtype}[] parameter(1)
      ROOT s = {dtype}[] add(a, b) }}
    ENTRY e {{
      x = {operand} parameter(0)
      i = {indices} parameter(1)
      u = {updates} parameter(2)
      ROOT s = {operand} scatter(x, i, u), update_window_dims={window},
        inserted_window_dims={inserted}, scatter_dims_to_operand_dims={indexed},
        index_vector_dim=1, to_apply=add }}"""


def product(name: str) -> str:
    left, right, result, i, j = PRODUCTS[name]
    return f"""HloModule m
    ENTRY e {{
      x = {left} parameter(0)
      y = {right} parameter(1)
      ROOT d = {result} dot(x, y), lhs_contracting_dims={{{i}}}, rhs_contracting_dims={{{j}}}
    }}"""


@pytest.fixture
def split_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest kernels, into as many parts as there may be."""
    for name in ("MIN_NANOSECONDS", "_GRAIN_NANOSECONDS", "_MOST_REPEATED", "_MOST_COPIED"):
        monkeypatch.setattr(split_kernel, name, 0)
    monkeypatch.setattr(split_kernel, "_LEAST_NANOSECONDS", 1)
    monkeypatch.setattr(split_kernel, "_SHORT_STEP_GRAIN", 64)


def compiled(text: str, threads: int = 0, level: int = 2) -> CpuModule:
    options = CompileOptions(opt_level=level, threads=threads)
    module = driver.parse_text(text)
    driver.optimise(module, options)
    made = driver.generate(module, options)
    assert isinstance(made, CpuModule)
    return made


def loaded(module: CpuModule) -> Executable:
    return host_programs.load_compiled(module)


def on_threads(module: CpuModule, threads: int) -> Executable:
    """Load compiled code, which does not depend on the number of threads, for so many."""
    module.objects()
    return loaded(replace(module, options=replace(module.options, threads=threads)))


def answers(module: CpuModule, threads: int, arrays: Sequence[Array]) -> list[bytes]:
    return [found.tobytes() for found in on_threads(module, threads)(*arrays)]


@cache
def all_split(text: str) -> CpuModule:
    """Compile a text for tests that use `split_all`, once for both ways of lending threads."""
    return compiled(text)


def normal(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=dims).astype(np.float32)


# ---------------------------------------------------------------- the same bits


@pytest.fixture(params=[last_worker_alone, all_at_once])
def lent_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let Python hand out the parts instead of the pool; returns how many each region had."""
    return lend_threads(monkeypatch, request.param)


@pytest.mark.usefixtures("split_all")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_any_number_of_threads_gives_the_same_bits(path: Path, lent_threads: list[int]) -> None:
    """Whoever computes a part, also with scratch memory that is not the caller's."""
    module = all_split(path.read_text())
    arrays = inputs_for(driver.parse_text(path.read_text()))
    with np.errstate(all="ignore"):
        want = answers(module, 1, arrays)
        for threads in (2, 5):
            assert answers(module, threads, arrays) == want, threads


@pytest.mark.usefixtures("split_all")
@pytest.mark.parametrize(
    "text",
    [*map(product, PRODUCTS), *map(reduced, COLUMNS), ROWS],
    ids=[*PRODUCTS, *COLUMNS, "sorted rows"],
)
def test_parts_of_products_rows_and_columns(text: str, lent_threads: list[int]) -> None:
    module = all_split(text)
    arrays = inputs_for(driver.parse_text(text), special=False)
    want = answers(module, 1, arrays)
    assert not lent_threads
    for threads in (2, 3, 7):
        assert answers(module, threads, arrays) == want, threads
    assert max(lent_threads) > 1


@pytest.mark.usefixtures("split_all")
@pytest.mark.parametrize("name", SCATTERS)
def test_parts_of_windows_that_are_scattered(
    name: str, lent_threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share the columns of rows that are updated, but no dimension that is indexed."""
    monkeypatch.setattr(scatter, "LEAST_SHARED_BYTES", 0)
    text = scattered(name)
    module, parsed = all_split(text), driver.parse_text(text)
    arrays = inputs_for(parsed, special=False)
    rows = min(parsed.entry.parameters[0].array.dims)
    arrays[1] %= rows
    arrays[1][::50] = -1
    want = answers(module, 1, arrays)
    for threads in (2, 3, 7):
        assert answers(module, threads, arrays) == want, threads
    assert bool(lent_threads) == (name != "windows")
    (expected,) = evaluate_module(parsed, arrays)
    assert_close(on_threads(module, 2)(*arrays)[0], expected)


@pytest.mark.parametrize("text", [LARGE, ROWS, product("columns")])
def test_the_pool_gives_the_same_bits(text: str) -> None:
    module = compiled(text)
    arrays = inputs_for(driver.parse_text(text))
    want = answers(module, 1, arrays)
    for threads in (2, 3, 7):
        run = on_threads(module, threads)
        for _ in range(5):
            assert [found.tobytes() for found in run(*arrays)] == want, threads


def test_code_does_not_depend_on_the_number_of_threads() -> None:
    """So the cache of objects serves all, and one thread runs what was tested with many."""
    texts = {compiled(LARGE, threads).stage("llvm-ir") for threads in (1, 2, 64)}
    assert len(texts) == 1
    (text,) = texts
    assert isinstance(text, str)
    assert "call void @split_2(" in text


# ---------------------------------------------------------------- which kernels


def test_small_kernels_stay_on_one_thread() -> None:
    text = LARGE.replace("700", "30").replace("1300", "50")
    assert not compiled(text).is_split
    assert loaded(compiled(text, threads=4)).threads == 1
    assert loaded(compiled(LARGE, threads=4)).threads == 4
    assert loaded(compiled(LARGE, threads=1)).threads == 1


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_shared_though_there_is_one_row_of_results(name: str) -> None:
    text = reduced(name).replace("70", "2000").replace("69_0", "1999_0").replace("300", "500")
    assert compiled(text).is_split


@pytest.mark.parametrize("name", ["few columns", "few rows of few columns"])
def test_products_whose_packed_side_is_small_are_shared(name: str) -> None:
    """Each thread packs all of one side, or reads it in place."""
    assert compiled(product(name)).is_split


def test_a_loop_with_large_kernels_shares_them() -> None:
    x = normal(400, 500)
    run = loaded(compiled(LOOP.replace("TRIPS", "3"), threads=2))
    assert run.threads == 2
    np.testing.assert_allclose(run(x)[0], np.cos(np.cos(np.cos(x))), **bounds("f32 one sign"))


def test_memory_of_threads_counts() -> None:
    module = compiled(ROWS, threads=3)
    assert module.worker_bytes >= 2 * 20000 * 4
    alone = loaded(compiled(ROWS, threads=1))
    report = alone.buffers
    needed = report.arena_bytes + report.output_bytes + report.constant_bytes
    assert hloc.compile(ROWS, threads=1, memory_limit_bytes=needed)
    with pytest.raises(HloError, match="more than the memory limit"):
        hloc.compile(ROWS, threads=3, memory_limit_bytes=needed)


# ---------------------------------------------------------------- the pool


def test_calls_at_the_same_time() -> None:
    """One of them has the pool, the others run on their own thread."""
    run = loaded(compiled(LARGE, threads=3))
    inputs = [normal(700, 1300, seed=i) for i in range(4)]
    want = [run(x)[0] for x in inputs]
    faults: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(run(inputs[i])[0], want[i]):
                faults.append(i)

    all_at_once(4, work)
    assert not faults


def test_an_endless_loop_on_threads_is_stopped() -> None:
    text = """HloModule m
    c { x = f32[400,500] parameter(0)
      ROOT t = pred[] constant(true) }
    b { x = f32[400,500] parameter(0)
      ROOT n = f32[400,500] cosine(x) }
    ENTRY e { x = f32[400,500] parameter(0)
      ROOT w = f32[400,500] while(x), condition=c, body=b }"""
    run = loaded(compiled(text, threads=2))
    assert run.threads == 2
    with again_and_again(stop_all), pytest.raises(KeyboardInterrupt):
        run(normal(400, 500))
    clear_stops()


def in_a_process(program: str, **environment: str) -> str:
    """Run Python code in a process of its own that knows `text`, `x` and `os_threads`."""
    given = f"""
import os, sys
import numpy as np, hloc
text = {LARGE!r}
x = np.ones((700, 1300), np.float32)
def os_threads(): return len(os.listdir("/proc/self/task"))
"""
    done = subprocess.run(
        [sys.executable, "-c", given + program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert not done.stderr
    return done.stdout.strip()


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="counts the threads that Linux lists"
)


@needs_proc
def test_threads_begin_with_the_first_run_that_wants_them() -> None:
    """None for one thread, none for loading; the process ends though they sleep."""
    program = """
first = os_threads()
hloc.compile(text, threads=1)(x)
run = hloc.compile(text, threads=3)
counts = [os_threads() - first]
for _ in range(3):
    run(x)
    counts.append(os_threads() - first)
hloc.compile(text, threads=2)(x)
print(counts, os_threads() - first)
"""
    assert in_a_process(program) == "[0, 2, 2, 2] 2"


@needs_proc
def test_threads_do_not_preempt_others() -> None:
    """They wait for an idle core: Linux lets no thread of this policy preempt another."""
    program = """
hloc.compile(text, threads=3)(x)
print([os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")].count(os.SCHED_BATCH))
"""
    assert in_a_process(program) == "2"


@needs_proc
def test_a_fork_has_a_pool_of_its_own() -> None:
    program = """
run = hloc.compile(text, threads=3)
want = run(x)[0]
child = os.fork()
if child == 0:
    before = os_threads()
    same = np.array_equal(run(x)[0], want)
    os._exit(0 if same and before == 1 and os_threads() == 3 else 1)
print(os.waitpid(child, 0)[1], np.array_equal(run(x)[0], want), os_threads() >= 3)
"""
    assert in_a_process(program) == "0 True True"


_CLOCK = """
@test.clock = internal global i64 0
@test.readings = internal global i64 0

define i32 @test_clock(i32 %kind, ptr %time) nounwind {
  %before = atomicrmw add ptr @test.readings, i64 1 seq_cst
  %now = load atomic i64, ptr @test.clock seq_cst, align 8
  %seconds = udiv i64 %now, 1000000000
  %rest = urem i64 %now, 1000000000
  store i64 %seconds, ptr %time
  %second = getelementptr i64, ptr %time, i64 1
  store i64 %rest, ptr %second
  ret i32 0
}

define i64 @test_readings() nounwind {
  %now = load atomic i64, ptr @test.readings seq_cst, align 8
  ret i64 %now
}

define void @test_advance(i64 %nanoseconds) nounwind {
  %before = atomicrmw add ptr @test.clock, i64 %nanoseconds seq_cst
  ret void
}
"""
"""A clock that stands still until the test moves it."""


def _work(pieces: int, nanoseconds: int = 80_000) -> Any:
    """Return the beginning of what a task shares: the pieces taken, and the estimated time."""
    return (ctypes.c_int32 * 2)(pieces, nanoseconds)


@dataclass(frozen=True, slots=True)
class TimedPool:
    """A pool of its own, of two threads, that reads the clock of `_CLOCK`."""

    code: LoadedCode

    @staticmethod
    def make() -> "TimedPool":
        """Compile and load it."""
        target = host_target()
        text = pool_unit(target).text.replace("declare i32 @clock_gettime(i32, ptr)", _CLOCK)
        text = text.replace("@clock_gettime(", "@test_clock(")
        needed = NEEDED - {"clock_gettime"}
        code = compile_object(text, target, 2, needed)
        names = (RUN, STOP, "test_readings", "test_advance")
        return TimedPool(load_functions([code], target, names, needed))

    def stop(self) -> None:
        """End the threads."""
        ctypes.CFUNCTYPE(None)(self.code.addresses[1])()

    def readings(self) -> int:
        """Return how often the pool has read the clock."""
        count: int = ctypes.CFUNCTYPE(ctypes.c_int64)(self.code.addresses[2])()
        return count

    def advance(self, milliseconds: int) -> None:
        """Let time go by."""
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.code.addresses[3])(milliseconds * 1_000_000)

    def parts(self, pieces: int, own_ms: int, late_ms: int, nanoseconds: int = 80_000) -> list[int]:
        """Return which parts of a task of two were called; both begin before either ends.

        Args:
            pieces: pieces of work that the task is said to share out.
            own_ms: what part 0 takes.
            late_ms: what the caller waits for part 1.
            nanoseconds: estimated time of the task.
        """
        began: list[int] = []
        other = threading.Event()
        counter = _work(pieces, nanoseconds)

        def work(_data: object, part: int) -> None:
            began.append(part)
            if part == 0:
                assert other.wait(PATIENCE)
                self.advance(own_ms)
                ended.append(self.readings())
                return
            other.set()
            # The caller reads the clock once its own part has ended, and waits.
            wait_until(lambda: ended and self.readings() > ended[0], "the caller waits")
            self.advance(late_ms)

        ended: list[int] = []
        ParallelFor(self.code.addresses[0])(None, Task(work), ctypes.addressof(counter), 2)
        return sorted(began)

    def parts_of_a_short_run(self, nanoseconds: int) -> list[int]:
        """Return which parts of a task of two were called if part 0 waits for nobody."""
        began: list[int] = []
        task = Task(lambda _data, part: began.append(part))
        ParallelFor(self.code.addresses[0])(None, task, ctypes.addressof(_work(1, nanoseconds)), 2)
        return began

    def parts_of_a_quiet_run(self) -> list[int]:
        """Return which parts of a task of two were called by a pool that does not share out."""
        began: list[int] = []
        before = self.readings()
        task = Task(lambda _data, part: began.append(part))
        counter = _work(100)
        ParallelFor(self.code.addresses[0])(None, task, ctypes.addressof(counter), 2)
        assert self.readings() == before + 1, "it asks for the time only"
        return began


@pytest.fixture
def timed_pool() -> Iterator[TimedPool]:
    """A pool whose clock the test moves."""
    made = TimedPool.make()
    yield made
    made.stop()


def test_a_thread_that_is_interrupted_is_not_asked_again_at_once(timed_pool: TimedPool) -> None:
    """After a wait of 60 ms for one piece of a hundred, the caller works alone for 16 times that.

    No wait is answered with more than a second.
    """
    assert timed_pool.parts(100, 0, 60) == [0, 1]
    assert timed_pool.parts_of_a_quiet_run() == [0]
    timed_pool.advance(16 * 60 - 1)
    assert timed_pool.parts_of_a_quiet_run() == [0]
    timed_pool.advance(1)
    assert timed_pool.parts(100, 0, 600) == [0, 1]
    timed_pool.advance(999)
    assert timed_pool.parts_of_a_quiet_run() == [0]
    timed_pool.advance(1)
    assert timed_pool.parts(100, 0, 0) == [0, 1]


@needs_proc
def test_threads_are_woken_for_eighty_microseconds_of_work(timed_pool: TimedPool) -> None:
    """Created for them too. Work before that is done by the caller, and counts."""
    before = {*os.listdir("/proc/self/task")}
    assert timed_pool.parts_of_a_short_run(30_000) == [0]
    assert timed_pool.parts_of_a_short_run(30_000) == [0]
    assert {*os.listdir("/proc/self/task")} == before
    assert timed_pool.parts(1, 0, 0, 30_000) == [0, 1]
    (worker,) = {*os.listdir("/proc/self/task")} - before
    status = Path("/proc/self/task", worker, "stat")
    for _ in range(2):
        wait_until(lambda: ") S " in status.read_text(), "the thread sleeps")
        assert timed_pool.parts_of_a_short_run(30_000) == [0]
        assert timed_pool.parts_of_a_short_run(30_000) == [0]
        assert timed_pool.parts(1, 0, 0, 30_000) == [0, 1]


def test_a_long_piece_is_no_interruption(timed_pool: TimedPool) -> None:
    """Three rows on two threads: the other thread has one more, and is waited for."""
    for _ in range(3):
        assert timed_pool.parts(3, 50, 50) == [0, 1]


@needs_proc
def test_a_sleeping_pool_takes_no_time() -> None:
    run = loaded(compiled(LARGE, threads=3))
    run(normal(700, 1300))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


# ---------------------------------------------------------------- how many


def test_where_the_number_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HLOC_NUM_THREADS", raising=False)
    assert thread_count(3) == 3
    assert thread_count() == available_cores() >= 1
    monkeypatch.setenv("HLOC_NUM_THREADS", "5")
    assert thread_count() == 5
    assert thread_count(2) == 2
    monkeypatch.setenv("HLOC_NUM_THREADS", "0")
    assert thread_count() == available_cores()
    monkeypatch.setenv("HLOC_NUM_THREADS", "many")
    with pytest.raises(HloError, match="HLOC_NUM_THREADS must be a number of threads"):
        thread_count()
    with pytest.raises(HloError, match="threads is a number of threads"):
        hloc.compile(LARGE, threads=-1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no such call")
def test_cores_that_the_process_may_not_use_do_not_count() -> None:
    program = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from hloc.runtime.threads import pool_unit, thread_count
from hloc.runtime.cpu_loader import LoadedCode, load_functions
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.cpu.thread_pool import NEEDED, RUN, STOP
print(thread_count(), hloc.compile(text).threads)
"""
    assert in_a_process(program, HLOC_NUM_THREADS="") == "1 1"
