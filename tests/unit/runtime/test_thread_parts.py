"""The parts of a kernel that threads claim: large first, small at the end, each iteration once."""

import ctypes
from collections.abc import Callable

from hloc.codegen.cpu.split_kernel import Split
from hloc.codegen.cpu.split_routine import split_numbers, split_routine
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import host_target
from hloc.runtime.arena import Threads
from hloc.runtime.cpu_loader import load_functions
from tests.lent_threads import ParallelFor, Share
from tests.waiting import all_at_once

Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def ranges(extent: int, split: Split, workers: int, share: Share) -> list[range]:
    """Return the parts of a kernel in the order in which they begin.

    Args:
        extent: end of its loop.
        split: its partition.
        workers: number of threads.
        share: calls the parts of a task.
    """
    routine = split_routine(1)
    target = host_target()
    code = compile_object(routine.text, target, 2, frozenset(routine.symbols))
    loaded = load_functions([code], target, (routine.name,), frozenset())
    found: list[range] = []
    kernel = Kernel(lambda _array, begin, end: found.append(range(begin, end)))
    run = ParallelFor(lambda _c, task, data, count: share(count, lambda i: task(data, i)))
    threads = Threads(ctypes.cast(run, ctypes.c_void_p).value, None, workers, None)
    numbers = split_numbers(extent, split, 0)
    types = (ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * len(numbers), ctypes.c_void_p)
    call = ctypes.CFUNCTYPE(None, *types)(loaded.address)
    call(ctypes.addressof(threads), ctypes.cast(kernel, ctypes.c_void_p), *numbers, None)
    return found


def caller_alone(_count: int, call: Callable[[int], None]) -> None:
    """Like a pool whose threads come too late."""
    call(0)


def test_parts_are_large_first_and_small_at_the_end() -> None:
    """A quarter of what is left of a range, in whole grains, and never less than `least`.

    The caller has its own range first, then takes what the other thread has not begun.
    """
    found = ranges(1000, Split(8, 16, 62, 10**6), 2, caller_alone)
    assert [part.start for part in found[1:]] == [part.stop for part in found[:-1]]
    assert (found[0].start, found[-1].stop) == (0, 1000)
    assert not any(part.start % 8 for part in found)
    own = [len(part) for part in found if part.stop <= 504]
    other = [len(part) for part in found if part.start >= 504]
    assert (sum(own), sum(other)) == (504, 496)
    for sizes in (own, other):
        assert sizes[:3] == [128, 96, 72]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-2] == 16 >= sizes[-1]


def test_threads_begin_in_ranges_of_their_own() -> None:
    """Equal ones, so that a thread finds in its cache what it wrote in the kernel before."""

    def first_part_of(worker: int) -> int:
        found = ranges(100, Split(1, 1, 100, 10**6), 4, lambda _count, call: call(worker))
        assert sorted(i for part in found for i in part) == [*range(100)]
        return found[0].start

    assert [first_part_of(worker) for worker in range(4)] == [0, 25, 50, 75]


def test_ordered_iterations_begin_in_their_order() -> None:
    split = Split(1, 1, 10, 10**6, is_ordered=True)
    found = ranges(10, split, 2, lambda _count, call: call(1))
    assert [part.start for part in found] == sorted(part.start for part in found)
    assert found[0].start == 0


def test_few_parts_are_equal() -> None:
    """Two threads do not share three parts; and a thread more than there are grains has none."""
    assert [len(part) for part in ranges(100, Split(1, 33, 100, 10**6), 2, caller_alone)] == [
        50,
        50,
    ]
    assert [len(part) for part in ranges(6, Split(2, 2, 3, 10**6), 64, caller_alone)] == [2, 2, 2]


def test_each_iteration_runs_once() -> None:
    for workers in (1, 2, 7):
        found = ranges(1001, Split(4, 4, 250, 10**6), workers, all_at_once)
        assert sorted(i for part in found for i in part) == [*range(1001)]
