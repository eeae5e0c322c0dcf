"""One kernel instruction by instruction, in the PTX interpreter: position and movement.

The kernel has run to its end before the first step is shown; steps replay the record of one block
(`hloc.ptx.stepping`), so that stepping back costs no more than stepping forward.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from hloc.codegen.gpu.kernel import Extent, GpuFunction
from hloc.codegen.gpu.nvptx.backend import NvptxModule
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.ptx import PtxFault, Watch
from hloc.ptx.instructions.decode import COLLECTIVE
from hloc.ptx.lanes import WARP
from hloc.ptx.stepping import MOST_MOMENTS, Moment
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import PROCESSORS, SimulatedDevice

_BARRIERS = ("bar", "barrier")


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch of a run: a function, and the addresses that it was given."""

    function: GpuFunction
    arguments: tuple[int, ...]

    @property
    def grid(self) -> Extent:
        """Blocks that ran: fewer than the function's blocks if blocks are persistent."""
        return self.function.grid_on(PROCESSORS)


class _WatchedDevice(SimulatedDevice):
    """A simulated GPU that lists its launches and watches one of them."""

    def __init__(self, number: int, watch: Watch) -> None:
        super().__init__()
        self.launches: list[Launched] = []
        self._number, self._watch = number, watch

    def watch(self, function: GpuFunction, arguments: Sequence[int]) -> Watch | None:
        self.launches.append(Launched(function, tuple(arguments)))
        return self._watch if len(self.launches) == self._number + 1 else None


@dataclass(slots=True, eq=False)
class KernelSteps:
    """The steps of one warp through one launch.

    Attributes:
        titles: by name of a function, the line of its instruction.
        inputs: the arguments of the module; `described` is their description.
        launch: number of the current launch.
        block, thread: linear numbers of the current ones.
        at: number of steps that the thread's warp has executed.
        launches: those of the whole run.
        moments: the record of the block; `steps` are the indices of those of the warp.
        fault: the interpreter's error message, "" if there is none.
    """

    compiled: NvptxModule
    titles: Mapping[str, str]
    inputs: Sequence[Array]
    described: str
    launch: int = 0
    block: int = 0
    thread: int = 0
    at: int = 0
    launches: list[Launched] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    fault: str = ""
    is_cut: bool = False

    @property
    def function(self) -> GpuFunction:
        """The current function."""
        return self.launches[self.launch].function

    @property
    def warp(self) -> int:
        """The warp of the thread."""
        return self.thread // WARP

    @property
    def lane(self) -> int:
        """The lane of the thread in its warp."""
        return self.thread % WARP

    @property
    def now(self) -> int:
        """How many moments of the block have passed."""
        return self.steps[self.at] if self.at < len(self.steps) else len(self.moments)

    @property
    def last(self) -> Moment | None:
        """The last moment of the warp."""
        return self.moments[self.steps[self.at - 1]] if self.at else None

    @property
    def next(self) -> Moment | None:
        """The next moment of the warp, None at its end."""
        return self.moments[self.steps[self.at]] if self.at < len(self.steps) else None

    def trace(self) -> None:
        """Run the module and record the block; `at` is clamped.

        Raises:
            HloError: nothing is launched.
        """
        watch = Watch(self.block, self.warp)
        device = _WatchedDevice(self.launch, watch)
        told = ""
        try:
            GpuExecutable(self.compiled, device)(*self.inputs)
        except PtxFault as fault:
            told = "; ".join((fault.message, *fault.diagnostics[0].notes))
        if not device.launches:
            raise HloError("the module computes nothing, so it has no kernel")
        self.launches, self.fault = device.launches, told
        self.moments, self.is_cut = watch.moments, watch.is_cut
        warp = self.warp
        self.steps = [
            number for number, moment in enumerate(self.moments) if len(moment.active(warp))
        ]
        self.at = min(self.at, len(self.steps))

    # ---- moving

    def go(self, count: int) -> None:
        """Move by `count` steps, backwards if negative; stop at either end."""
        self.at = max(0, min(self.at + count, len(self.steps)))

    def go_to(self, where: str) -> None:
        """Move forward until the next instruction is at a line, or of a kind of `PLACES`.

        Raises:
            HloError: no such place, or the warp does not reach it from here.
        """
        if where == "end":
            self.at = len(self.steps)
            return
        if _is_number(where):
            line = int(where)
            found = self._first(lambda moment: moment.instruction.line == line)
        elif where == "divergence":
            found = self._divergence()
        elif where in PLACES:
            found = self._first(_TESTS[where])
        else:
            near = near_name_notes(where, list(PLACES))
            raise HloError(
                f"cannot go to {where!r}", notes=near or (f"a line, or {', '.join(PLACES)}",)
            )
        if found is None:
            what = f"line {where}" if _is_number(where) else PLACES[where]
            cut = f"; only {MOST_MOMENTS:,} steps are kept" if self.is_cut else ""
            raise HloError(f"warp {self.warp} does not come to {what} from here{cut}")
        self.at = found

    def _first(self, fits: Callable[[Moment], bool]) -> int | None:
        """Return the first later step whose next moment satisfies `fits`."""
        rest = range(self.at + 1, len(self.steps))
        return next((i for i in rest if fits(self.moments[self.steps[i]])), None)

    def _divergence(self) -> int | None:
        """Return the next step at which the set of active lanes changes."""
        if self.next is None:
            return None
        before = self.next.active(self.warp).tobytes()
        return self._first(lambda moment: moment.active(self.warp).tobytes() != before)

    # ---- choosing

    def choose_thread(self, text: str) -> None:
        """Choose another thread of the block, `5` or `5,0,0`, at the same time."""
        thread = _number(text, self.function.block, "thread")
        if thread // WARP == self.warp:
            self.thread = thread
            return
        now = self.now
        self._look_at(self.launch, self.block, thread)
        self.at = sum(step < now for step in self.steps)

    def choose_block(self, text: str) -> None:
        """Choose another block of the launch, at its start."""
        block = _number(text, self.launches[self.launch].grid, "block")
        self._look_at(self.launch, block, self.thread)
        self.at = 0

    def choose_launch(self, text: str) -> None:
        """Choose another launch of the run, counted from 1: its first block and thread."""
        if not _is_number(text) or not 0 < int(text) <= len(self.launches):
            raise HloError(f"launches are 1 to {len(self.launches)}, not {text!r}")
        self._look_at(int(text) - 1, 0, 0)
        self.at = 0

    def _look_at(self, launch: int, block: int, thread: int) -> None:
        """Trace another thread; if that is interrupted, as by Ctrl-C, nothing changes."""
        before = self.launch, self.block, self.thread
        self.launch, self.block, self.thread = launch, block, thread
        try:
            self.trace()
        except BaseException:
            self.launch, self.block, self.thread = before
            raise


def _touches(space: str) -> Callable[[Moment], bool]:
    return lambda moment: any(access.space == space for access in moment.accesses)


def _is_collective(moment: Moment) -> bool:
    return moment.instruction.parts[0] in COLLECTIVE


_TESTS: dict[str, Callable[[Moment], bool]] = {
    "barrier": lambda moment: moment.instruction.parts[0] in _BARRIERS,
    "global": _touches("global"),
    "shared": _touches("shared"),
    "warp": _is_collective,
}
PLACES = {
    "barrier": "a barrier",
    "global": "an access to global memory",
    "shared": "an access to shared memory",
    "warp": "an instruction of the whole warp, as a shuffle",
    "divergence": "a place where other lanes are active",
    "end": "its end",
}
"""The targets of `ptx to`, besides lines."""


def waits(moment: Moment) -> bool:
    """True for an instruction at which lanes may have to wait for others."""
    return moment.instruction.parts[0] in _BARRIERS or _is_collective(moment)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d{1,9}", text) is not None


def _number(text: str, extent: Extent, what: str) -> int:
    """Read `17`, or `x,y,z` within an extent.

    Raises:
        HloError: it is neither, or out of range.
    """
    x, y, z = extent
    parts = [int(part) for part in re.split(r"[,x]", text) if _is_number(part)]
    if _is_number(text) and parts[0] < x * y * z:
        return parts[0]
    if re.fullmatch(r"\d{1,9}([,x]\d{1,9}){1,2}", text):
        i, j, k = (*parts, 0)[:3]
        if i < x and j < y and k < z:
            return i + x * (j + y * k)
    last = f"0 to {x * y * z - 1:,}" + (f", or up to {x - 1},{y - 1},{z - 1}" if y * z > 1 else "")
    raise HloError(f"there is no {what} {text!r} here: {what}s are {last}")
