"""Faults of the machine: Ctrl-C at any time, packages that are missing, too little memory.

None of them ends in a traceback, and each has its exit code.
"""

import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hloc.report.exits import Exit, ending
from hloc.report.interrupts import forget_interrupts, heed_interrupts
from tests.waiting import PATIENCE, children, wait_for_work, wait_until

ROOT = Path(__file__).parents[3]
MODULE = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  ROOT s = f32[4] add(x, c)
}
"""

AT_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            {action}

sys.meta_path.insert(0, Finder())
"""


def run(
    folder: Path, *words: str, name: str = "", action: str = "pass", memory_bytes: int = 0
) -> tuple[int, str]:
    """Run a command in a process where the import of `name` does `action`.

    Returns:
        The exit code and what it wrote to stderr.
    """
    (folder / "m.hlo").write_text(MODULE)
    (folder / "sitecustomize.py").write_text(AT_IMPORT.format(name=name, action=action))

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    path = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "HLOC_CACHE_DIR": ""},
        capture_output=True,
        text=True,
        preexec_fn=prepare,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stderr


INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
MISSING = "raise ModuleNotFoundError(f'No module named {name!r}', name=name)"


@pytest.mark.parametrize(
    "name", ["hloc.cli.commands", "numpy", "hloc.opt.pipelines", "llvmlite", "numpy.random"]
)
def test_ctrl_c_inside_an_import_is_not_lost(name: str, tmp_path: Path) -> None:
    found = run(tmp_path, "hloc", "run", "m.hlo", "--random", "-q", name=name, action=INTERRUPT)
    assert found == (130, "hloc: interrupted\n")


def test_ctrl_c_while_hlo_repl_starts_ends_it(tmp_path: Path) -> None:
    found = run(tmp_path, "repl", "m.hlo", name="rich.console", action=INTERRUPT)
    assert found == (130, "hlo-repl: interrupted\n")


ENDLESS = """HloModule m, replica_count=2
c { i = f32[4] parameter(0)
  ROOT t = pred[] constant(true) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
b { i = f32[4] parameter(0)
  ROOT n = f32[4] all-reduce(i), replica_groups={{0,1}}, to_apply=add }
ENTRY e { z = f32[4] parameter(0)
  ROOT w = f32[4] while(z), condition=c, body=b }
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize(
    ("program", "number", "code"),
    [
        ("hloc", "SIGINT", 130),
        pytest.param("hloc", "SIGTERM", -signal.SIGTERM, marks=pytest.mark.slow),
        ("hlo-repl", "SIGINT", 130),
        ("hlo-repl", "SIGTERM", -signal.SIGTERM),
    ],
)
def test_a_signal_ends_an_endless_run_on_two_devices(
    program: str, number: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "m.hlo").write_text(ENDLESS)
    words = ["repl", "m.hlo"]
    if program == "hloc":
        words = ["hloc", "run", "m.hlo", "--devices=2", "--random", "-q"]
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdin is not None
    worker = process.pid
    if program == "hlo-repl":
        process.stdin.write("set timeout 600\nrun\n")
        process.stdin.flush()
        wait_until(lambda: children(process.pid), "the child process starts")
        (worker,) = children(process.pid)
    wait_for_work(worker, 3.0)  # more than it takes to start and to compile
    process.send_signal(signal.Signals[number])
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == code
    assert said == (f"{program}: interrupted\n" if code == 130 else "")
    wait_until(lambda: has_ended(worker), "no process stays behind")


def has_ended(pid: int) -> bool:
    """True if a process is gone, or nobody has asked yet how it ended."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return state.stdout.strip()[:1] in ("", "Z")


AT_EXIT = """
import sys, threading
import numpy as np
import hloc

run = hloc.compile(sys.argv[1], opt_level=0, threads=2)
x = np.ones((512, 512), np.float32)
ready = threading.Event()

def work():
    while True:
        ready.set()
        run(x)

threading.Thread(target=work, daemon=True).start()
ready.wait()
sys.exit(3)
"""


@pytest.mark.parametrize("endless", [False, True])
def test_a_program_may_end_while_a_pool_works(endless: bool) -> None:
    count = "t = pred[] constant(true)" if endless else "t = pred[] constant(false)"
    text = f"""HloModule m
c {{ i = f32[512,512] parameter(0)
  ROOT {count} }}
b {{ i = f32[512,512] parameter(0)
  ROOT n = f32[512,512] cosine(i) }}
ENTRY e {{ z = f32[512,512] parameter(0)
  y = f32[512,512] exponential(z)
  ROOT w = f32[512,512] while(y), condition=c, body=b }}"""
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, text],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {"PYTHONPATH": str(ROOT), "HLOC_CACHE_DIR": ""},
    )
    assert (done.returncode, done.stderr) == (3, "")


def test_a_ctrl_c_that_something_swallows_still_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def swallow() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            return 0
        return 1

    def replace() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None
        return 1

    try:
        for action in (swallow, replace):
            assert ending("hloc", action, whole=True) == Exit.INTERRUPTED
            assert capsys.readouterr().err == "hloc: interrupted\n"
            forget_interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ["llvmlite", "numpy", "ml_dtypes"])
def test_a_package_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    code, said = run(tmp_path, "hloc", "run", "m.hlo", "-q", name=name, action=MISSING)
    assert (code, said) == (
        1,
        f"hloc: error: the package {name} is missing; `pip install hloc` brings it\n",
    )


def test_hlo_repl_names_a_package_that_is_missing(tmp_path: Path) -> None:
    code, said = run(tmp_path, "repl", "m.hlo", name="prompt_toolkit", action=MISSING)
    assert (code, said) == (0, ""), "commands from a pipe need no terminal"
    code, said = run(tmp_path, "repl", "m.hlo", name="rich", action=MISSING)
    assert code == 1
    assert said == "hlo-repl: error: the package rich is missing; `pip install hloc` brings it\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits address space as Linux counts it")
@pytest.mark.parametrize(
    ("memory", "code", "what"),
    [(512, 0, ""), (292, 4, "compiling"), (256, 4, "loading NumPy"), (100, 4, "")],
)
def test_small_modules_run_in_512_mib_and_with_less_the_command_says_why(
    memory: int, code: int, what: str, tmp_path: Path
) -> None:
    words = ("hloc", "run", "m.hlo", "--random", "-q")
    found = run(tmp_path, *words, memory_bytes=memory << 20)
    assert found[0] == code
    if code == 0:
        assert found[1] == ""
    else:
        assert found[1].startswith("hloc: run failed: out of memory")
        assert f"{what} needs" in found[1] or not what
        assert found[1].count("\n") == 1


def test_handlers_of_signals_stay_when_another_thread_types_commands() -> None:
    before = signal.getsignal(signal.SIGINT)
    heed_interrupts(lambda: sys.exit(130))
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(forget_interrupts).result()
    finally:
        forget_interrupts()
        signal.signal(signal.SIGINT, before)
