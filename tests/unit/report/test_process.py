"""How a command begins and ends: threads of OpenBLAS, exit code, output, exit functions."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

_TELLS_WHAT_ENDS_IT = """
import atexit, sys, threading
from hloc.report.process import run_process

class Deleted:
    def __del__(self):
        print("deleted")

kept = Deleted()

def main():
    atexit.register(lambda: print("exit function"))
    thread = threading.Timer(0.1, lambda: print("thread"))
    thread.start()
    sys.stderr.write("error")
    print("output")
    return 7

run_process(main)
"""


def _python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=names | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_ends_with_its_output_its_threads_and_its_exit_functions() -> None:
    """What it holds is left to the system: deleting it takes as long as a small command."""
    done = _python("-c", _TELLS_WHAT_ENDS_IT)
    assert done.returncode == 7
    assert done.stdout.splitlines() == ["output", "thread", "exit function"]
    assert done.stderr == "error"


def test_an_interrupt_at_the_end_has_its_code_and_no_traceback() -> None:
    """Ctrl-C may come while threads are waited for."""
    interrupted = (
        "import signal, threading; from hloc.report.process import end_process;"
        "threading._shutdown = lambda: signal.raise_signal(signal.SIGINT); end_process(0)"
    )
    done = _python("-c", interrupted)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_profiler_goes_on_after_the_program() -> None:
    done = _python("-m", "cProfile", "-m", "hloc", "--version")
    assert "function calls" in done.stdout
    assert done.returncode == 0


def test_mpi_goes_on_after_the_program(tmp_path: Path) -> None:
    """It finalizes itself when Python ends; without that, mpiexec takes the process for dead."""
    (tmp_path / "mpi4py.py").touch()
    tells = "import sys, mpi4py; from hloc.report.process import end_process; end_process(7)"
    shown = "class E:\n def __del__(self): print('Python ends')\ne = E()\n"
    done = _python("-c", shown + tells, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert (done.returncode, done.stdout) == (7, "Python ends\n")


def test_files_that_a_plugin_leaves_open_are_written(tmp_path: Path) -> None:
    plugin, log = tmp_path / "mine.py", tmp_path / "log"
    plugin.write_text(f"log = open({str(log)!r}, 'w')\nlog.write('loaded')\n")
    done = _python("-m", "hloc", "passes", "dce", f"--plugin={plugin}")
    assert done.returncode == 0, done.stderr
    assert log.read_text() == "loaded"


def test_threads_of_openblas_sleep_at_once_unless_the_user_says_otherwise() -> None:
    variable = "OPENBLAS_THREAD_TIMEOUT"
    tells = (
        "import os, sys; from hloc.report.process import run_process;"
        f"run_process(lambda: print(os.environ[{variable!r}], 'numpy' in sys.modules) or 0)"
    )
    assert _python("-c", tells).stdout == "16 False\n"
    assert _python("-c", tells, **{variable: "30"}).stdout == "30 False\n"


def test_both_programs_are_such_processes() -> None:
    for program in ("hloc.cli", "repl.__main__"):
        tells = (
            f"import sys, {program} as program; sys.argv[1:] = ['--version'];"
            "import atexit, os;"
            "atexit.register(lambda: print(os.environ['OPENBLAS_THREAD_TIMEOUT']));"
            "program.process()"
        )
        done = _python("-c", tells)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "16"
