"""A user's test of a module: a command that exits with 0 if the module shows the fault."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile

from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.output_file import write_form
from hloc.report.exits import UsageError

PLACE = "{}"


@dataclass(frozen=True, slots=True)
class OutsideTest:
    """Runs `command` in a shell, `{}` standing for a file with the module.

    Attributes:
        seconds: a command that runs longer is killed, and counts as showing no fault.
    """

    command: str
    seconds: float

    def __post_init__(self) -> None:
        if PLACE not in self.command:
            raise UsageError(f"--test: expected {PLACE} where the file goes in {self.command!r}")

    def shows_fault(self, module: Module) -> bool:
        """Write `module` to a temporary file and run the command on it."""
        with tempfile.TemporaryDirectory(prefix="hloc-test-") as folder:
            path = os.path.join(folder, "module.hlo")
            write_form(path, module.to_text(large_constants=True))
            return self._exit_code(self.command.replace(PLACE, shlex.quote(path))) == 0

    def _exit_code(self, command: str) -> int:
        """Return the exit code, -1 after the time limit; child processes are killed too."""
        process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            if process.poll() is None:
                _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
