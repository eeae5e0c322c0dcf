"""The view of a stepped kernel: position in its PTX, lanes, registers, memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from hloc.codegen.gpu.kernel import Extent
from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.ptx.lanes import WARP
from hloc.ptx.stepping import Moment
from hloc.ptx.value_types import Array
from hloc.report.text import plural
from repl.kernels.memory import touched
from repl.kernels.steps import KernelSteps, waits
from repl.results import Table

_AROUND = 3
"""Lines of PTX that are shown before and after the current one."""

_MOST_LAUNCHES = 64
_SMALL = 1 << 16
"""Integers below this are printed in decimal, others in hexadecimal like addresses."""


@dataclass(frozen=True, slots=True)
class Change:
    """A register of the thread that the last step wrote."""

    register: str
    value: str
    before: str


@dataclass(frozen=True, slots=True)
class KernelView:
    """The position of a stepped kernel.

    Attributes:
        head: the line of HLO of the kernel, and the launch; () if both were shown before.
        place: block, thread and step.
        lines: lines of PTX around the position, number and text; `current` is the next line.
        lanes: its active lanes, as `####....` and in words.
        changes: registers of the thread that the last step wrote.
        touched: memory that the last step accessed.
        end: why there is no next instruction, "" if there is one.
    """

    head: tuple[str, ...]
    place: str
    lines: tuple[tuple[int, str], ...]
    current: int
    lanes: str
    changes: tuple[Change, ...]
    touched: tuple[str, ...]
    end: str


def view(steps: KernelSteps, *, opening: bool = False) -> KernelView:
    """Return the current position; `opening` includes what is the same at all steps."""
    following = steps.next
    shown = following or steps.last
    return KernelView(
        _head(steps) if opening else (),
        f"block {steps.block}, thread {steps.thread} (lane {steps.lane} of warp {steps.warp}); "
        f"step {steps.at} of {len(steps.steps)}",
        _lines_around(steps, shown.instruction.line if shown is not None else 0),
        following.instruction.line if following is not None else 0,
        _lanes(steps, following) if following is not None else "",
        tuple(_changes(steps)),
        tuple(touched(steps)),
        "" if following is not None else _end(steps),
    )


def _head(steps: KernelSteps) -> tuple[str, ...]:
    function = steps.function
    blocks = plural(prod(steps.launches[steps.launch].grid), "block")
    return (
        steps.titles.get(function.name, function.name),
        f"launch {steps.launch + 1} of {len(steps.launches)}: {blocks} of "
        f"{plural(function.threads, 'thread')}; {steps.described}",
    )


def _end(steps: KernelSteps) -> str:
    if steps.fault:
        return f"the run ends here: {steps.fault}"
    if steps.is_cut:
        return "no more steps are kept; the kernel goes on"
    return f"warp {steps.warp} has left"


def _lines_around(steps: KernelSteps, line: int) -> tuple[tuple[int, str], ...]:
    name = steps.function.name
    text = steps.compiled.ptx.splitlines()
    numbers = range(max(line - _AROUND, 1), min(line + _AROUND, len(text)) + 1) if line else ()
    return tuple((number, _shortened(text[number - 1].expandtabs(4), name)) for number in numbers)


def _shortened(line: str, name: str) -> str:
    """Return a line of PTX without the kernel's name as prefix of its labels."""
    return (
        line.replace(f"{name}_param_", "param_").replace(f"{name}_$_", "").replace(name, "kernel")
    )


def _lanes(steps: KernelSteps, moment: Moment) -> str:
    active = set(moment.active(steps.warp).tolist())
    count = min(WARP, steps.function.threads - WARP * steps.warp)
    marks = "".join("#" if lane in active else "." for lane in range(count))
    own = "" if steps.lane in active else f"; thread {steps.thread} is not among them"
    return f"{marks}  {len(active)} of {count} lanes{own}"


def launches(steps: KernelSteps) -> Table:
    """Return the launches of the run."""
    rows = tuple(
        (str(number), _extent(launched.grid), _extent(launched.function.block),
         steps.titles.get(launched.function.name, launched.function.name))
        for number, launched in enumerate(steps.launches, 1)
    )  # fmt: skip
    heads = ("launch", "grid", "block", "of")
    title = f"the first {_MOST_LAUNCHES} of {len(rows):,} launches"
    return Table(
        title if len(rows) > _MOST_LAUNCHES else "", heads, rows[:_MOST_LAUNCHES], right=(0, 1, 2)
    )


def _extent(extent: Extent) -> str:
    return "x".join(map(str, extent))


# ---------------------------------------------------------------- registers


def value_text(value: Array) -> str:
    """Return the value of a register of one lane."""
    if value.ndim:
        return "{" + ", ".join(value_text(part) for part in value) + "}"
    if value.dtype == np.bool_:
        return str(bool(value)).lower()
    if value.dtype.kind == "f":
        return f"{float(value):.6g}"
    number = int(value)
    return str(number) if -_SMALL < number < _SMALL else hex(number)


def _changes(steps: KernelSteps) -> Iterator[Change]:
    """Yield the registers of the thread that the last step changed."""
    last, lane = steps.last, steps.lane
    if last is None:
        return
    before = _registers(steps, steps.steps[steps.at - 1])
    is_active = lane in last.active(steps.warp)
    for name, values in sorted(last.registers.items(), key=_by_name):
        old = before.get(name)
        same = old is not None and values[lane].tobytes() == old[lane].tobytes()
        if not same and (is_active or old is not None):
            yield Change(
                name, value_text(values[lane]), "" if old is None else value_text(old[lane])
            )


def _registers(steps: KernelSteps, until: int) -> dict[str, Array]:
    """Return the registers of the warp before moment number `until`."""
    found: dict[str, Array] = {}
    for moment in steps.moments[:until]:
        found.update(moment.registers)
    return found


def _by_name(row: tuple[str, object]) -> tuple[str, int, str]:
    """Order %r9 before %r10."""
    letters = row[0].rstrip("0123456789")
    digits = row[0][len(letters) :]
    return letters, int(digits or 0), row[0]


def registers(steps: KernelSteps, names: str = "") -> Table:
    """Return the registers of the thread that were written, or those named."""
    found = _registers(steps, steps.now)
    fresh = {change.register for change in _changes(steps)}
    wanted = names.replace(",", " ").split() or _written(steps, found)
    rows = [
        ("*" if name in fresh else "", name, value_text(_register(found, name)[steps.lane]))
        for name in sorted(wanted, key=lambda name: _by_name((name, None)))
    ]
    title = f"registers of thread {steps.thread}" + ("" if rows else ": none yet")
    return Table(title, (), tuple(rows), right=(2,))


def _written(steps: KernelSteps, found: dict[str, Array]) -> list[str]:
    """Return the registers that the thread has written; other lanes may have written more."""
    done = steps.moments[: steps.now]
    lane = steps.lane
    own = {name for m in done if lane in m.active(steps.warp) for name in m.registers}
    return [name for name, values in found.items() if name in own or values[lane].any()]


def lanes_of_register(steps: KernelSteps, name: str) -> Table:
    """Return the value of one register in every lane of the warp."""
    values = _register(_registers(steps, steps.now), name)
    texts = [value_text(value) for value in values]
    rows = tuple(
        (f"lanes {first} to {min(first + 8, len(texts)) - 1}", *texts[first : first + 8])
        for first in range(0, len(texts), 8)
    )
    return Table(f"{name} in warp {steps.warp}", (), rows, right=tuple(range(1, 9)))


def _register(found: dict[str, Array], name: str) -> Array:
    name = name if name in found else f"%{name.removeprefix('%')}"
    if name not in found:
        near = near_name_notes(name, list(found))
        raise HloError(f"register {name} has no value yet", notes=near)
    return found[name]


# ---------------------------------------------------------------- the other warps


def whereabouts(steps: KernelSteps) -> Table:
    """Return the positions of all threads of the block: the next instruction of each."""
    threads, now = steps.function.threads, steps.now
    following: dict[int, int] = {}
    for number in range(now, len(steps.moments)):
        for lane in steps.moments[number].lanes.tolist():
            following.setdefault(lane, number)
        if len(following) == threads:
            break
    before: dict[int, int] = {}
    for number in range(now - 1, -1, -1):
        for lane in steps.moments[number].lanes.tolist():
            before.setdefault(lane, number)
        if len(before) == threads:
            break
    groups: dict[tuple[int, str], list[int]] = {}
    for lane in range(threads):
        groups.setdefault(_location(steps, lane, before, following), []).append(lane)
    rows = [
        (str(line) if line else "", text, _threads_text(lanes))
        for (line, text), lanes in sorted(groups.items())
    ]
    return Table(f"block {steps.block} after step {steps.at}", (), tuple(rows), right=(0,))


def _location(
    steps: KernelSteps, lane: int, before: dict[int, int], following: dict[int, int]
) -> tuple[int, str]:
    """Return the line and text of the next instruction of a lane, or where it waits."""
    end = following.get(lane, len(steps.moments))
    last = steps.moments[before[lane]] if lane in before else None
    if last is not None and waits(last):
        others = steps.moments[steps.now : end]
        if any(moment.instruction.line == last.instruction.line for moment in others):
            return last.instruction.line, f"{_instruction(last)}  waits"
    if lane not in following:
        return 0, "left" if not (steps.fault or steps.is_cut) else "unknown"
    moment = steps.moments[end]
    return moment.instruction.line, _instruction(moment)


def _instruction(moment: Moment) -> str:
    return " ".join(moment.instruction.text.split())


def _threads_text(lanes: list[int]) -> str:
    """Return `threads 0-31, 40`, ascending."""
    parts: list[str] = []
    start = previous = lanes[0]
    for lane in (*lanes[1:], -1):
        if lane != previous + 1:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = lane
        previous = lane
    return f"{'thread' if len(lanes) == 1 else 'threads'} {', '.join(parts)}"
