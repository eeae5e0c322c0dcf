"""The routine that runs a kernel on several threads, as LLVM text.

Each thread has an equal range of the iterations, the same in each kernel, so that it finds in its
cache what it wrote before. It claims part after part of it: a quarter of what is left, but no less
than `Split.least`, so that parts are large first and small at the end ("guided self-scheduling",
Polychronopoulos and Kuck 1987). A thread whose range is done claims parts of the others' ranges. So
threads end at about the same time though some begin late, and nobody waits for a part that has not
begun.

The pointer table holds the threads of a run, or null for none:

    struct { void (*run)(void *context, void (*task)(void *data, int part), void *data, int count);
             void *context; int workers; void *scratch; }

`run` calls the task for part 0, and may call it for parts 1 to `count - 1`, concurrently or not at
all. `scratch` holds scratch memory for every worker but the first. `data` begins with two i32: the
number of parts claimed so far, and the estimated time of the kernel in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from hloc.codegen.cpu.split_kernel import Split, worker_bytes
from hloc.codegen.cpu.subnormals import FloatMode
from hloc.codegen.llvm.routine import Routines

THREADS_TYPE = "{ ptr, ptr, i32, ptr }"
"""LLVM's type of the threads of a run."""

MOST_ARRAYS = 16
"""Most arrays of kernels whose routine is precompiled."""

_NUMBERS = ("extent", "grain", "least", "most", "ordered", "nanoseconds", "worker_bytes")

PARTS_OF_SHARE = 4
"""The next part is one of this many of what is left of a thread's range."""

MOST_RANGES = 64
"""More threads than this share ranges."""

_MOST_NANOSECONDS = (1 << 31) - 1


@cache
def split_routine(arguments: int, mode: FloatMode | None = None) -> Routines:
    """Return the function that runs a kernel with this many arrays on several threads.

        split(threads, kernel, numbers..., arrays...)

    The numbers are those of `split_numbers`. With a `mode`, all threads flush subnormals.
    """
    name = f"split_{arguments}{'_flushed' if mode else ''}"
    types = ", ".join(["ptr", "ptr", *["i64"] * len(_NUMBERS), *["ptr"] * arguments])
    source = partial(_text, name, arguments, mode)
    return Routines(name, (f"declare void @{name}({types})",), source, 0)


def _text(name: str, arguments: int, mode: FloatMode | None) -> str:
    numbers = ("ptr %threads", "ptr %kernel", *(f"i64 %{number}" for number in _NUMBERS))
    arrays = [f"ptr %a{i}" for i in range(arguments)]
    lines = [
        *(mode.declarations if mode else ()),
        f"define void @{name}({', '.join([*numbers, *arrays])}) nounwind {{",
        *_shared_out(arguments, mode),
        "}",
        "",
        "define internal void @task(ptr %region, i32 %worker) nounwind {",
        *_task(arguments, mode),
        "}",
    ]
    return "\n".join(lines) + "\n"


def split_numbers(extent: int, split: Split, scratch_bytes: int) -> tuple[int, ...]:
    """Return the arguments that describe a kernel to the routine.

    Args:
        extent: end of the outermost loop.
        split: its partition.
        scratch_bytes: size of the scratch memory of one worker, the last array if there is any.

    Returns:
        The extent; the fields of the split, 1 or 0 for `is_ordered` before the time; the stride in
        bytes of the scratch memory of workers.
    """
    nanoseconds = min(split.nanoseconds, _MOST_NANOSECONDS)
    stride = worker_bytes(scratch_bytes)
    ordered = int(split.is_ordered)
    return extent, split.grain, split.least, split.most, ordered, nanoseconds, stride


def _region(arguments: int) -> str:
    """Return LLVM's type of the data that workers share."""
    kinds = [kind for kind, _ in (*_FIRST_FIELDS, *_fields(arguments))]
    return f"{{ {', '.join(kinds)} }}"


def _fields(arguments: int) -> list[tuple[str, str]]:
    """Return types and names of the fields of a region that do not change."""
    numbers = ["%extent", "%grain", "%floor", "%range", "%count.ranges", "%divisor"]
    numbers.append("%worker_bytes")
    pointers = ["%ranges", "%kernel", "%scratch", *(f"%a{i}" for i in range(arguments))]
    return [*(("i64", name) for name in numbers), *(("ptr", name) for name in pointers)]


def _shared_out(arguments: int, mode: FloatMode | None) -> Iterator[str]:
    """Yield the body of the routine."""
    given = "".join(f"ptr %a{i}, " for i in range(arguments))
    region = _region(arguments)
    yield "entry:"
    yield f"  %region = alloca {region}, align 64"
    yield f"  %ranges = alloca [{MOST_RANGES} x {_RANGE}], align 64"
    if mode is not None:
        yield from mode.reserved("usual")
    yield "  %alone = icmp eq ptr %threads, null"
    yield "  br i1 %alone, label %whole, label %shared"
    yield "whole:"
    yield f"  call void %kernel({given}i64 0, i64 %extent)"
    yield "  ret void"
    yield "shared:"
    for field, name in ((0, "run"), (1, "context"), (2, "workers"), (3, "scratch")):
        kind = "i32" if name == "workers" else "ptr"
        yield f"  %at.{name} = getelementptr {THREADS_TYPE}, ptr %threads, i32 0, i32 {field}"
        yield f"  %{name} = load {kind}, ptr %at.{name}"
    yield _PARTS
    for number, (kind, value) in enumerate([*_FIRST_FIELDS, *_fields(arguments)]):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  store {kind} {value}, ptr %field.{number}"
    if mode is not None:  # threads that `run` creates take over the mode of this one
        yield from mode.kept("usual")
    yield "  call void %run(ptr %context, ptr @task, ptr %region, i32 %count)"
    if mode is not None:
        yield from mode.restored("usual")
    yield "  ret void"


_RANGE = "[8 x i64]"
"""The next iteration of a range, on a line of the cache of its own."""

_PARTS = f"""\
  %wide.workers = sext i32 %workers to i64
  %few = icmp slt i64 %wide.workers, %most
  %fewer = select i1 %few, i64 %wide.workers, i64 %most
  %some = icmp sgt i64 %fewer, 1
  %shares = select i1 %some, i64 %fewer, i64 1
  %count = trunc i64 %shares to i32
  %time = trunc i64 %nanoseconds to i32
  %less = sub i64 %shares, 1
  %raised = add i64 %extent, %less
  %share = udiv i64 %raised, %shares
  %rest = sub i64 %grain, 1
  %above = add i64 %share, %rest
  %cut = sub i64 0, %grain
  %even = and i64 %above, %cut
  %pair = shl i64 %least, 1
  %has.two = icmp ule i64 %pair, %share
  %floor = select i1 %has.two, i64 %least, i64 %even
  %many = icmp sgt i64 %shares, {MOST_RANGES}
  %most.ranges = select i1 %many, i64 {MOST_RANGES}, i64 %shares
  %is.ordered = icmp ne i64 %ordered, 0
  %count.ranges = select i1 %is.ordered, i64 1, i64 %most.ranges
  %for.all = add i64 %extent, %count.ranges
  %all.but.one = sub i64 %for.all, 1
  %equal = udiv i64 %all.but.one, %count.ranges
  %above.equal = add i64 %equal, %rest
  %range = and i64 %above.equal, %cut
  %quarters = mul i64 %shares, {PARTS_OF_SHARE}
  %divisor = udiv i64 %quarters, %count.ranges
  br label %fill
fill:
  %i = phi i64 [ 0, %shared ], [ %next.i, %fill ]
  %at.i = getelementptr {_RANGE}, ptr %ranges, i64 %i
  %first = mul i64 %i, %range
  store i64 %first, ptr %at.i
  %next.i = add i64 %i, 1
  %more.ranges = icmp ult i64 %next.i, %count.ranges
  br i1 %more.ranges, label %fill, label %start
start:"""
"""Lines for `%count`, the number of workers; `%floor`, the size of the smallest part; `%range`, the
size of a range; and for the ranges, each with its first iteration.

Without two of the smallest parts for each worker, all get an equal part.
"""

_FIRST_FIELDS = (("i32", "0"), ("i32", "%time"), ("i64", "%extent"))
"""The parts claimed so far, the time of the kernel, and the iterations not yet claimed."""


def _task(arguments: int, mode: FloatMode | None) -> Iterator[str]:
    """Yield the body of a worker, which takes parts until none are left."""
    names = [f"%a{i}" for i in range(arguments)]
    region = _region(arguments)
    yield "entry:"
    if mode is not None:
        yield from [*mode.reserved("mode"), *mode.flushed("mode")]
    yield f"  %unclaimed = getelementptr {region}, ptr %region, i32 0, i32 2"
    for number, (kind, name) in enumerate(_fields(arguments), len(_FIRST_FIELDS)):
        yield f"  %field.{number} = getelementptr {region}, ptr %region, i32 0, i32 {number}"
        yield f"  {name} = load {kind}, ptr %field.{number}"
    yield "  %wide = sext i32 %worker to i64"
    yield "  %before = sub i64 %wide, 1"
    yield "  %offset = mul i64 %before, %worker_bytes"
    yield "  %other = getelementptr i8, ptr %scratch, i64 %offset"
    yield "  %is.first = icmp eq i32 %worker, 0"
    yield "  %needs.none = icmp eq i64 %worker_bytes, 0"
    yield "  %keeps = or i1 %is.first, %needs.none"
    yield f"  %own = select i1 %keeps, ptr {names[-1]}, ptr %other"
    given = "".join(f"ptr {name}, " for name in (*names[:-1], "%own"))
    yield _CLAIM
    yield f"  call void %kernel({given}i64 %begin, i64 %end)"
    yield "  br label %look"
    yield "done:"
    if mode is not None:
        yield from mode.restored("mode")
    yield "  ret void"


_CLAIM = f"""\
  %rest = sub i64 %grain, 1
  %cut = sub i64 0, %grain
  %home = urem i64 %wide, %count.ranges
  br label %look
look:
  %r = phi i64 [ %home, %entry ], [ %r, %claim ], [ %r, %run ], [ %other.range, %steal ]
  %done.ranges = phi i64 [ 0, %entry ], [ %done.ranges, %claim ], [ %done.ranges, %run ],
                         [ %ended, %steal ]
  %next = getelementptr {_RANGE}, ptr %ranges, i64 %r
  %begin = load atomic i64, ptr %next monotonic, align 8
  %first = mul i64 %r, %range
  %beyond = add i64 %first, %range
  %within = icmp ult i64 %beyond, %extent
  %last = select i1 %within, i64 %beyond, i64 %extent
  %is.left = icmp ult i64 %begin, %last
  br i1 %is.left, label %claim, label %exhausted
claim:
  %left = sub i64 %last, %begin
  %share = udiv i64 %left, %divisor
  %above = add i64 %share, %rest
  %whole = and i64 %above, %cut
  %is.large = icmp ugt i64 %whole, %floor
  %part = select i1 %is.large, i64 %whole, i64 %floor
  %stop = add i64 %begin, %part
  %inside = icmp ult i64 %stop, %last
  %end = select i1 %inside, i64 %stop, i64 %last
  %swap = cmpxchg ptr %next, i64 %begin, i64 %end monotonic monotonic
  %is.mine = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %is.mine, label %run, label %look
exhausted:
  %ended = add i64 %done.ranges, 1
  %still = load atomic i64, ptr %unclaimed monotonic, align 8
  %none = icmp eq i64 %still, 0
  %was.last = icmp eq i64 %ended, %count.ranges
  %ends = or i1 %none, %was.last
  br i1 %ends, label %done, label %steal
steal:
  %after = add i64 %r, 1
  %wraps = icmp eq i64 %after, %count.ranges
  %other.range = select i1 %wraps, i64 0, i64 %after
  br label %look
run:
  %parts = atomicrmw add ptr %region, i32 1 monotonic
  %size = sub i64 %end, %begin
  %before.it = atomicrmw sub ptr %unclaimed, i64 %size monotonic"""
"""Lines that claim the iterations from `%begin` to `%end`, or go to `done` if none are left."""
