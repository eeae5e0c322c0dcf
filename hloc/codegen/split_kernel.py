"""Kernels on several threads: which ones, in what parts, and the LLVM text around them.

Parts are ranges of a kernel's outermost loop, which computes each of its steps on its own. Who
computes a part is decided while it runs; what a part computes is not, so results are the same bits
for every number of threads.

The pointer table holds the threads of a run, or null for none:

    struct { void (*run)(void *context, void (*task)(void *data, int part), void *data, int count);
             void *context; int workers; void *scratch; }

`run` calls the task for part 0, and for others from 1 to `count - 1` as it likes, at the same time
or not at all. `scratch` has working memory for every worker but the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hloc.analysis.cost import Cost, computation_cost, instruction_cost
from hloc.analysis.epilogue import PRODUCTS
from hloc.codegen.emitters.context import Emitter
from hloc.codegen.subnormals import FloatMode
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction

THREADS_TYPE = "{ ptr, ptr, i32, ptr }"
"""LLVM's type of the threads of a run."""

SCRATCH_ALIGNMENT_BYTES = 64

_TAKING = ("gather", "dynamic-slice", "slice")

MIN_NANOSECONDS = 80_000
"""Estimated time of a kernel from which on it is split: twice what it takes to wake a thread."""

_PART_NANOSECONDS = 40_000
_MOST_PARTS = 256
_TILE = 16
"""Parts of many steps are whole tiles of transposes."""

_CACHED_BYTES = 2 << 20
_CACHED_BYTES_PER_NANOSECOND = 32
_BYTES_PER_NANOSECOND = 12
"""What one core moves: of arrays that fit its cache, and of what is beyond."""

_REPEATED_BYTES_PER_NANOSECOND = 4
_MOST_REPEATED = 4
"""Work that every part repeats is less than one in so many of all."""

_FLOPS_PER_NANOSECOND = 32
_PRODUCT_FLOPS_PER_NANOSECOND = 100
_GRAIN_NANOSECONDS = 2000
_SHORT_STEP_NANOSECONDS = 200
_SHORT_STEP_GRAIN = 256
"""Short steps may be lanes of LLVM's vectors, which are to begin at the same steps in all parts."""


@dataclass(frozen=True, slots=True)
class Split:
    """How the outermost loop of a kernel is cut.

    Attributes:
        grain: parts begin at multiples of it.
        step: size of a part; 0 for one part per thread, which suits kernels that begin every part
            with the same work.
    """

    grain: int
    step: int


def split_of(inst: Instruction, emitter: Emitter) -> Split | None:
    """Return how to cut the kernel of `inst`; None if it should run on one thread."""
    extent = emitter.extent(inst)
    if extent < 2:
        return None
    nanoseconds = estimated_nanoseconds(inst)
    if nanoseconds < MIN_NANOSECONDS:
        return None
    grain = _grain(nanoseconds / extent)
    if extent <= grain:
        return None
    repeated_bytes = emitter.repeated_bytes(inst)
    if repeated_bytes:
        repeated = repeated_bytes // _REPEATED_BYTES_PER_NANOSECOND
        return Split(grain, 0) if repeated * _MOST_REPEATED < nanoseconds else None
    parts = min(max(nanoseconds // _PART_NANOSECONDS, 2), _MOST_PARTS)
    step = _multiple(-(-extent // parts), grain)
    return Split(grain, _multiple(step, _TILE) if step > _TILE else step)


def estimated_nanoseconds(inst: Instruction) -> int:
    """Return about how long one thread takes for the kernel of `inst`.

    The figures are of no machine in particular, so all make the same parts.
    """

    def called(computation: Computation) -> Cost:
        return computation_cost(computation, called)

    cost = instruction_cost(inst, called)
    members = inst.called[0].instructions if inst.opcode.name == "fusion" else (inst,)
    is_product = any(member.is_a(*PRODUCTS) for member in members)
    flops_per_nanosecond = _PRODUCT_FLOPS_PER_NANOSECOND if is_product else _FLOPS_PER_NANOSECOND
    moved = min(cost.bytes, cost.bytes_written + _read_bytes(inst))
    return (
        min(moved, _CACHED_BYTES) // _CACHED_BYTES_PER_NANOSECOND
        + max(moved - _CACHED_BYTES, 0) // _BYTES_PER_NANOSECOND
        + cost.flops // flops_per_nanosecond
        + cost.transcendentals
    )


def _read_bytes(inst: Instruction) -> int:
    """Return what is read of the operands; of those that are only indexed, what is taken."""
    if inst.opcode.name != "fusion":
        return sum(operand.shape.size_bytes for operand in inst.operands)
    total = 0
    for parameter in inst.called[0].parameters:
        size = parameter.shape.size_bytes
        taken = sum(
            user.shape.size_bytes if user.is_a(*_TAKING) and user.operands[0] is parameter else size
            for user in parameter.users
        )
        total += min(size, taken)
    return total


def _multiple(size: int, of: int) -> int:
    return -(-size // of) * of


def _grain(step_nanoseconds: float) -> int:
    """Return how many steps are worth being counted: a power of two."""
    grain = _SHORT_STEP_GRAIN if step_nanoseconds < _SHORT_STEP_NANOSECONDS else 1
    while grain * step_nanoseconds < _GRAIN_NANOSECONDS:
        grain *= 2
    return grain


def split_name(kernel: str) -> str:
    """Return the name of the function that runs a kernel on the threads it is given."""
    return f"split_{kernel}"


def split_text(
    kernel: str,
    arguments: int,
    extent: int,
    split: Split,
    scratch_bytes: int,
    mode: FloatMode | None = None,
) -> Iterator[str]:
    """Yield the lines of `split_name(kernel)`, which takes the threads and the kernel's arrays.

    Args:
        kernel: name of a function that takes `arguments` pointers and a range.
        arguments: scratch memory is the last of them, if there is any.
        extent: end of the outermost loop.
        split: how to cut it.
        scratch_bytes: size of the scratch memory of one worker.
        mode: in which all threads flush subnormals, if they do.
    """
    names = [f"%a{i}" for i in range(arguments)]
    region = f"{{ i32, i64, ptr{', ptr' * arguments} }}"
    given = "".join(f"ptr {name}, " for name in names)
    parameters = ", ".join(f"ptr {name}" for name in ("%threads", *names))
    yield f"define internal void @{split_name(kernel)}({parameters}) nounwind {{"
    yield "entry:"
    yield f"  %region = alloca {region}, align 64"
    if mode is not None:
        yield from mode.reserved("usual")
    yield "  %alone = icmp eq ptr %threads, null"
    yield "  br i1 %alone, label %whole, label %shared"
    yield "whole:"
    yield f"  call void @{kernel}({given}i64 0, i64 {extent})"
    yield "  ret void"
    yield "shared:"
    for field, name in ((0, "run"), (1, "context"), (2, "workers"), (3, "scratch")):
        kind = "i32" if name == "workers" else "ptr"
        yield f"  %at.{name} = getelementptr {THREADS_TYPE}, ptr %threads, i32 0, i32 {field}"
        yield f"  %{name} = load {kind}, ptr %at.{name}"
    yield from _parts(extent, split)
    fields = [("i32", "0"), ("i64", "%step"), ("ptr", "%scratch"), *(("ptr", n) for n in names)]
    for number, (kind, value) in enumerate(fields):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  store {kind} {value}, ptr %field.{number}"
    if mode is not None:  # threads that `run` creates take over the mode of this one
        yield from mode.kept("usual")
    yield f"  call void %run(ptr %context, ptr @task_{kernel}, ptr %region, i32 %count)"
    if mode is not None:
        yield from mode.restored("usual")
    yield "  ret void"
    yield "}"
    yield ""
    yield from _task(kernel, arguments, region, extent, scratch_bytes, mode)


def _parts(extent: int, split: Split) -> Iterator[str]:
    """Yield the lines for `%step`, the size of a part, and `%count`, how many may run at once."""
    grains = -(-extent // split.grain)
    most = -(-extent // split.step) if split.step else grains
    yield f"  %few = icmp slt i32 %workers, {most}"
    yield f"  %fewer = select i1 %few, i32 %workers, i32 {most}"
    yield "  %some = icmp sgt i32 %fewer, 1"
    yield "  %count = select i1 %some, i32 %fewer, i32 1"
    if split.step:
        yield f"  %step = add i64 0, {split.step}"
        return
    yield "  %shares = zext i32 %count to i64"
    yield "  %less = sub i64 %shares, 1"
    yield f"  %raised = add i64 {grains}, %less"
    yield "  %grains = udiv i64 %raised, %shares"
    yield f"  %step = mul i64 %grains, {split.grain}"


def _task(
    kernel: str,
    arguments: int,
    region: str,
    extent: int,
    scratch_bytes: int,
    mode: FloatMode | None,
) -> Iterator[str]:
    """Yield the function that a worker runs: it takes parts as long as there are any."""
    names = [f"%a{i}" for i in range(arguments)]
    yield f"define internal void @task_{kernel}(ptr %region, i32 %worker) nounwind {{"
    yield "entry:"
    if mode is not None:
        yield from [*mode.reserved("mode"), *mode.flushed("mode")]
    fields = [("i64", "%step"), ("ptr", "%scratch"), *(("ptr", name) for name in names)]
    for number, (kind, name) in enumerate(fields, 1):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  {name} = load {kind}, ptr %field.{number}"
    if scratch_bytes:
        yield "  %wide = sext i32 %worker to i64"
        yield "  %before = sub i64 %wide, 1"
        yield f"  %offset = mul i64 %before, {worker_bytes(scratch_bytes)}"
        yield "  %other = getelementptr i8, ptr %scratch, i64 %offset"
        yield "  %first = icmp eq i32 %worker, 0"
        yield f"  %own = select i1 %first, ptr {names[-1]}, ptr %other"
        names[-1] = "%own"
    given = "".join(f"ptr {name}, " for name in names)
    yield "  br label %next"
    yield "next:"
    yield "  %number = atomicrmw add ptr %region, i32 1 monotonic"
    yield "  %part = zext i32 %number to i64"
    yield "  %begin = mul i64 %part, %step"
    yield f"  %left = icmp ult i64 %begin, {extent}"
    yield "  br i1 %left, label %run, label %done"
    yield "run:"
    yield "  %stop = add i64 %begin, %step"
    yield f"  %inside = icmp ult i64 %stop, {extent}"
    yield f"  %end = select i1 %inside, i64 %stop, i64 {extent}"
    yield f"  call void @{kernel}({given}i64 %begin, i64 %end)"
    yield "  br label %next"
    yield "done:"
    if mode is not None:
        yield from mode.restored("mode")
    yield "  ret void"
    yield "}"
    yield ""


def worker_bytes(scratch_bytes: int) -> int:
    """Return the room that one worker but the first needs for so much scratch memory."""
    return _multiple(scratch_bytes, SCRATCH_ALIGNMENT_BYTES)
