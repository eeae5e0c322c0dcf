"""XLA in a process of its own: a program that it does not survive ends only that process.

`python -m hloc.jax.xla_child` reads programs and arguments from stdin and writes results to stdout.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.framed_arrays import arrays_from, blocks_of, types_of
from hloc.framing import read_message, write_message
from hloc.python_process import ending_of, python_command, python_environment


class XlaEnded(HloError):
    """XLA did not survive a program."""


class XlaChild:
    """Programs that XLA compiled in a child process; used as a context, which ends the process.

    Attributes:
        cores: that the process may use; 0 for all.
    """

    def __init__(self, cores: int = 0) -> None:
        self.cores = cores
        self._process: subprocess.Popen[bytes] | None = None
        self._known: set[str] = set()

    def __enter__(self) -> XlaChild:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None
        self._known.clear()

    def run(
        self,
        key: str,
        text: str,
        arrays: Sequence[Array],
        flags: Sequence[tuple[str, str]] = (),
    ) -> list[Array]:
        """Run HLO text, which the process compiles once for each `key`; "" is not kept.

        Args:
            key: names the program.
            text: HLO text.
            arrays: its arguments.
            flags: of XLA, for this program.

        Raises:
            HloError: XLA does not take the module.
            XlaEnded: the process has ended.
        """
        return self._asked(key, text, arrays, flags, 1)[0]

    def seconds(self, key: str, text: str, arrays: Sequence[Array], repeat: int) -> list[float]:
        """Return the seconds of `repeat` runs; faults as for `run`."""
        return self._asked(key, text, arrays, (), repeat)[1]

    def _asked(
        self,
        key: str,
        text: str,
        arrays: Sequence[Array],
        flags: Sequence[tuple[str, str]],
        repeat: int,
    ) -> tuple[list[Array], list[float]]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        text = "" if key in self._known else text
        request = {"key": key, "text": text, "flags": flags, "repeat": repeat}
        try:
            write_message(process.stdin, {**request, "types": types_of(arrays)}, blocks_of(arrays))
            answer, blocks = read_message(process.stdout)
        except (EOFError, BrokenPipeError):
            code = process.wait()
            self.close()
            raise XlaEnded(f"the process of XLA {ending_of(code)}") from None
        except BaseException:  # half a message may be on its way
            self.close()
            raise
        if answer["fault"]:
            raise HloError(answer["fault"])
        self._known.update({key} - {""})
        return list(arrays_from(answer["types"], blocks)), answer["seconds"]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                python_command("-m", "hloc.jax.xla_child", str(self.cores)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=python_environment(JAX_PLATFORMS="cpu"),
                start_new_session=True,  # Ctrl-C is for the parent, which ends the child
            )
        return self._process


def main() -> int:
    """Answer until stdin ends; the word of the command says how many cores XLA may use."""
    cores = int(sys.argv[1])
    if cores and hasattr(os, "sched_setaffinity"):  # XLA counts them when it starts
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from hloc.jax.xla_program import XlaProgram

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    programs: dict[str, XlaProgram] = {}
    while True:
        try:
            request, blocks = read_message(sys.stdin.buffer)
        except EOFError:
            return 0
        results: Sequence[Array] = ()
        seconds: Sequence[float] = ()
        fault = ""
        try:
            if request["text"]:
                flags = [(name, value) for name, value in request["flags"]]
                programs[request["key"]] = XlaProgram.from_text(request["text"], flags)
            arrays = arrays_from(request["types"], blocks)
            results, seconds = programs[request["key"]].run(arrays, request["repeat"])
        except HloError as error:
            fault = error.message
        answer = {"fault": fault, "types": types_of(results), "seconds": seconds}
        write_message(answers, answer, blocks_of(results))


if __name__ == "__main__":
    sys.exit(main())
