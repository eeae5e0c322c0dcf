"""XLA in a child process: a program that crashes XLA ends only that process.

It is asked for programs and arguments, and answers with results (`hloc/child_process.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hloc.child_process import Answer, Child, answer_messages
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.framed_arrays import arrays_from, blocks_of, types_of


class XlaEnded(HloError):
    """The process of XLA has ended."""


class XlaChild:
    """Programs that XLA compiled in a child process; used as a context, which ends the process."""

    def __init__(self, cores: int = 0) -> None:
        """Let the process use this many `cores`, 0 for all."""
        self._child = Child("hloc.jax.xla_child", arguments=str(cores), JAX_PLATFORMS="cpu")
        self._known: set[str] = set()

    def __enter__(self) -> XlaChild:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def run(
        self,
        key: str,
        text: str,
        arrays: Sequence[Array],
        flags: Sequence[tuple[str, str]] = (),
    ) -> list[Array]:
        """Run HLO text, which the process compiles once for each `key`; "" is not kept.

        Args:
            key: identifies the program.
            text: HLO text.
            arrays: its arguments.
            flags: XLA's flags for this program.

        Raises:
            HloError: XLA rejects the module.
            XlaEnded: the process has ended.
        """
        return self._asked(key, text, arrays, flags, 1)[0]

    def seconds(self, key: str, text: str, arrays: Sequence[Array], repeat: int) -> list[float]:
        """Return the seconds of `repeat` runs; errors as for `run`."""
        return self._asked(key, text, arrays, (), repeat)[1]

    def _asked(
        self,
        key: str,
        text: str,
        arrays: Sequence[Array],
        flags: Sequence[tuple[str, str]],
        repeat: int,
    ) -> tuple[list[Array], list[float]]:
        """Return results and seconds of the program `key`; its text is sent once per child process.

        Raises:
            XlaEnded: the process has ended; the next request starts another.
            HloError: XLA refused the program.
        """
        text = "" if key in self._known else text
        request = {"key": key, "text": text, "flags": flags, "repeat": repeat}
        try:
            answer, blocks = self._child.ask(
                {**request, "types": types_of(arrays)}, blocks_of(arrays)
            )
        except BaseException as fault:  # another process knows no program
            self._known.clear()
            if isinstance(fault, EOFError):
                raise XlaEnded(f"the process of XLA {fault}") from None
            raise
        if answer["fault"]:
            raise HloError(answer["fault"])
        self._known.update({key} - {""})
        return list(arrays_from(answer["types"], blocks)), answer["seconds"]


def serve(cores: int) -> None:
    """Run what comes in; XLA may use this many `cores`, 0 for all."""
    if cores and hasattr(os, "sched_setaffinity"):  # XLA counts them when it starts
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    from hloc.jax.xla_program import XlaProgram

    programs: dict[str, XlaProgram] = {}

    def answer(request: Any, blocks: list[bytearray]) -> Answer:
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
        found = {"fault": fault, "types": types_of(results), "seconds": seconds}
        return found, blocks_of(results)

    answer_messages(answer)
