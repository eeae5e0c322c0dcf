"""LLVM in several processes: helpers that compile units of a large module beside this one.

Within a process, LLVM compiles one text at a time (llvmlite holds a lock), so helpers are
processes. They are spawned, not forked, since this process may have threads; they receive text,
send back objects, and end when the module is done or this process is gone. The distribution does
not affect the result: a unit that fails in a helper is compiled here, where its error is reported.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from hloc.codegen.llvm.object_child import object_child, object_of_child
from hloc.codegen.llvm.routine import FINAL_FORM, FINAL_WITH_SLOTS, ONLY_SHORT_LOOPS, SHORT_LOOPS
from hloc.codegen.llvm.target import Target, available_cores
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

VARIABLE = "HLOC_COMPILE_PROCESSES"
"""Environment variable for the number of processes, this one included; 1 for no helpers."""

_FUNCTIONS_PER_UNIT = 32

_HELPER_SECONDS = 0.15
"""Least work per helper: the time in which it starts, where units take as long as estimated."""

_SECONDS_PER_BYTE = {
    0: 0.15e-6, 1: 3e-6, 2: 3.5e-6, 3: 9.5e-6, FINAL_FORM: 0.5e-6, FINAL_WITH_SLOTS: 1.1e-6,
    SHORT_LOOPS: 4e-6, ONLY_SHORT_LOOPS: 5e-6,
}  # fmt: skip
"""Compile time by level, measured on units of training steps; only the ratios matter."""


@dataclass(frozen=True, slots=True)
class Function:
    """LLVM text of a function that may be compiled with any others.

    Attributes:
        name: its symbol.
        declarations: declarations, constants and metadata that it needs, one per entry.
        calls: the symbols in other units that it needs, besides those of the C library.
    """

    name: str
    text: str
    declarations: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """LLVM text that is compiled on its own, and the level of its optimisation.

    Attributes:
        source: the text, or a function that writes it.
        routine: the name of a routine, "" for a unit of one program.
        functions: those that the text consists of, if others may be compiled instead.
    """

    source: str | Callable[[], str]
    level: int
    routine: str = ""
    functions: tuple[Function, ...] = ()

    @property
    def text(self) -> str:
        """The text."""
        return self.source if isinstance(self.source, str) else self.source()

    @property
    def seconds(self) -> float:
        """Estimate of LLVM's compile time."""
        return len(self.text) * _SECONDS_PER_BYTE[self.level]


def function_units(functions: Sequence[Function], level: int) -> list[Unit]:
    """Return units of functions with the same level, in their order."""
    parts = [
        tuple(functions[i : i + _FUNCTIONS_PER_UNIT])
        for i in range(0, len(functions), _FUNCTIONS_PER_UNIT)
    ]
    return [Unit(functions_text(part), level, functions=part) for part in parts]


def functions_text(functions: Sequence[Function]) -> str:
    """Return the text of a unit of functions."""
    declarations = dict.fromkeys(d for function in functions for d in function.declarations)
    return "\n".join([*declarations, "", *(function.text for function in functions)])


def process_count(threads: int = 0) -> int:
    """Return how many processes may compile, this one included.

    Unless the environment sets a number, cores that other programs keep busy do not count: helpers
    on them cost more than they save.

    Args:
        threads: `CompileOptions.threads`, an upper bound; 0 for none.

    Raises:
        HloError: HLOC_COMPILE_PROCESSES is not a number of processes.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HloError(
            f"{VARIABLE} must be a number of processes, 0 for all cores, not {text[:40]!r}"
        )
    if not sys.executable or getattr(sys, "frozen", False):
        return 1  # no Python executable to start
    if count := int(text or 0):
        return count
    cores = available_cores()
    return min(threads or cores, cores, 1 + _idle_cores(cores))


def _idle_cores(cores: int) -> int:
    """Return how many of `cores` were idle, or nearly so, in the last minute."""
    try:
        return max(int(cores - os.getloadavg()[0] + 0.25), 0)
    except (AttributeError, OSError):
        return cores


def helpers_for(units: Sequence[Unit], processes: int) -> int:
    """Return how many helpers, at most `processes - 1`, are worth starting for `units`."""
    seconds = [unit.seconds for unit in units]
    longest = max(seconds, default=0.0)
    rest = sum(seconds) - longest
    if rest < _HELPER_SECONDS:
        return 0
    useful = math.ceil(rest / longest)  # the longest unit is a lower bound on the total time
    return min(int(rest / _HELPER_SECONDS), useful, processes - 1)


def compile_units(
    units: Sequence[Unit],
    target: Target,
    also: frozenset[str],
    compile_here: Callable[[Unit], bytes],
    helpers: int,
) -> list[bytes]:
    """Return the objects of `units`, in their order.

    Args:
        units: what to compile; the longest are begun first.
        target: the machine, as for `compile_object`.
        also: symbols that objects may leave undefined, as for `compile_object`.
        compile_here: compiles a unit in this process, and reports its errors.
        helpers: how many processes to start.
    """
    order = deque(sorted(range(len(units)), key=lambda i: (-units[i].seconds, i)))
    objects: list[bytes | None] = [None] * len(units)
    crew: list[_Helper] = []
    try:
        for _ in range(helpers):
            crew.append(_Helper(units, (target, also), order, objects))
            crew[-1].start()
        while (number := _next(order)) is not None:
            objects[number] = compile_here(units[number])
        for helper in crew:
            helper.join()
    finally:
        for helper in crew:
            helper.end()
    return [
        compile_here(unit) if data is None else data
        for unit, data in zip(units, objects, strict=True)
    ]


def _next(order: deque[int]) -> int | None:
    """Take the next number, unique to this thread; None when all are taken."""
    try:
        return order.popleft()
    except IndexError:
        return None


class _Helper:
    """A process that compiles, and the thread of this process that sends it the units."""

    def __init__(
        self,
        units: Sequence[Unit],
        setting: tuple[Target, frozenset[str]],
        order: deque[int],
        objects: list[bytes | None],
    ) -> None:
        self._units = units
        self._setting = setting
        self._order = order
        self._objects = objects
        self._child = object_child()
        self._thread = threading.Thread(target=self._feed, name="hloc-compile", daemon=True)

    def start(self) -> None:
        """Start both; does nothing if the system allows no more processes or threads."""
        with suppress(OSError, ValueError, RuntimeError):
            self._child.start()
            self._thread.start()

    def join(self) -> None:
        """Wait until it has finished."""
        with suppress(RuntimeError):  # its thread never started
            self._thread.join()

    def _feed(self) -> None:
        target, also = self._setting
        if object_of_child(self._child, "", target, 0, also) is None:
            return
        # It has started; this process has begun the longest units meanwhile.
        while (number := _next(self._order)) is not None:
            unit = self._units[number]
            data = object_of_child(self._child, unit.text, target, unit.level, also)
            if data is None:
                return  # the process died, or the unit has an error, which is reported here
            self._objects[number] = data

    def end(self) -> None:
        """End the process; its thread ends, too."""
        self._child.end()
        self.join()
