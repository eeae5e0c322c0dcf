"""Collectives among several participants: what each receives; and of one participant."""

from collections.abc import Sequence

import numpy as np
import pytest

import hloc
from hloc.dtypes import BF16
from hloc.errors import HloError
from hloc.evaluator import evaluate_computation
from hloc.ir.opcode import HostValue, Rendezvous
from hloc.ops.exchanges import exchanged
from tests.unit.ops.programs import ADD, f32, run, s32

X = "x = f32[4] parameter(0) "
Y = "y = f32[2] parameter(1) "


def meet(entry: str, *parts: Sequence[HostValue], called: str = ADD) -> list[HostValue]:
    """Return the result of the root of `entry` for each participant, as lists."""
    module = hloc.parse(f"HloModule m\n{called}ENTRY e {{ {entry} }}")
    members = tuple(range(len(parts)))
    values = [tuple(part) for part in parts]
    rendezvous = Rendezvous(values, members, evaluate_computation)
    results = exchanged(module.entry.root, rendezvous)
    return [_lists(result) for result in results]


def _lists(value: HostValue) -> HostValue:
    return tuple(map(_lists, value)) if isinstance(value, tuple) else value.tolist()


A, B = f32([1, 2, 3, 4]), f32([10, 20, 30, 40])


def test_all_reduce_gives_all_the_sum_of_each_operand() -> None:
    entry = X + Y + "ROOT r = (f32[4], f32[2]) all-reduce(x, y), to_apply=add"
    both = ([11, 22, 33, 44], [6, 8])
    assert meet(entry, (A, f32([1, 2])), (B, f32([5, 6]))) == [both, both]


def test_all_reduce_takes_any_reducer_in_the_order_of_ranks() -> None:
    less = ADD.replace("add(", "subtract(")
    entry = "x = f32[1] parameter(0) ROOT r = f32[1] all-reduce(x), to_apply=add"
    assert meet(entry, (f32([9]),), (f32([2]),), (f32([3]),), called=less) == [[4]] * 3


def test_all_reduce_rounds_once_where_the_reducer_is_wider() -> None:
    entry = "x = bf16[1] parameter(0) ROOT r = bf16[1] all-reduce(x), to_apply=add"
    one, small = (np.array([v], BF16.numpy) for v in (1, 2**-8))
    assert meet(entry, (one,), (small,), (small,)) == [[1 + 2**-7]] * 3
    narrow = ADD.replace("f32", "bf16")
    assert meet(entry, (one,), (small,), (small,), called=narrow) == [[1]] * 3


def test_reduce_scatter_gives_each_its_piece_of_the_sum() -> None:
    entry = X + "ROOT r = f32[2] reduce-scatter(x), dimensions={0}, to_apply=add"
    assert meet(entry, (A,), (B,)) == [[11, 22], [33, 44]]


def test_all_gather_concatenates_by_rank() -> None:
    entry = (
        "x = f32[2,1] parameter(0) ROOT r = f32[2,3] all-gather(x), dimensions={1}, "
        "replica_groups={{2,0,1}}"
    )
    parts = [(f32([[rank], [-rank]]),) for rank in range(3)]
    assert meet(entry, *parts) == [[[0, 1, 2], [0, -1, -2]]] * 3


def test_all_to_all_transposes_pieces() -> None:
    entry = X + "ROOT r = f32[4] all-to-all(x), dimensions={0}"
    assert meet(entry, (A,), (B,)) == [[1, 2, 10, 20], [3, 4, 30, 40]]
    entry = Y.replace("1", "0") + (
        "z = f32[2] parameter(1) ROOT r = (f32[2], f32[2]) all-to-all(y, z)"
    )
    parts = [(f32([1, 2]), f32([3, 4])), (f32([5, 6]), f32([7, 8]))]
    assert meet(entry, *parts) == [([1, 2], [5, 6]), ([3, 4], [7, 8])]


def test_pieces_must_divide_the_dimension() -> None:
    entry = X + "ROOT r = f32[4] all-to-all(x), dimensions={0}"
    with pytest.raises(HloError, match="4 elements does not divide into 3 equal pieces"):
        meet(entry, (A,), (A,), (A,))


def test_collective_broadcast_sends_what_rank_0_has() -> None:
    assert meet(X + "ROOT r = f32[4] collective-broadcast(x)", (A,), (B,)) == [A.tolist()] * 2


def test_a_dynamic_root_is_the_rank_that_the_receiver_names() -> None:
    """A rank beyond the group is the nearest one, as dynamic-slice clamps."""
    entry = (
        "x = f32[4] parameter(0) y = f32[4] parameter(1) k = s32[2] parameter(2) "
        "ROOT r = (f32[4], f32[4]) collective-broadcast(x, y, k), has_dynamic_root=true"
    )
    a, b = A.tolist(), B.tolist()
    assert meet(entry, (A, B, s32([1, 0])), (B, A, s32([1, 0]))) == [(b, b)] * 2
    assert meet(entry, (A, B, s32([-1, 9])), (B, A, s32([0, 1]))) == [(a, a)] * 2


def test_collective_permute_leaves_zeros_where_none_sends() -> None:
    entry = X + "ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,2},{2,1}}"
    zeros = [0, 0, 0, 0]
    assert meet(entry, (A,), (zeros,), (B,)) == [zeros, B.tolist(), A.tolist()]


RAGGED = (
    "x = f32[3] parameter(0) o = f32[5] parameter(1) a = s32[2] parameter(2) "
    "b = s32[2] parameter(3) c = s32[2] parameter(4) d = s32[2] parameter(5) "
    "ROOT r = f32[5] ragged-all-to-all(x, o, a, b, c, d)"
)


def test_ragged_all_to_all_writes_rows_where_the_sender_says() -> None:
    out = f32([-1] * 5)
    first = (f32([1, 2, 3]), out, s32([0, 1]), s32([1, 2]), s32([0, 3]), s32([1, 1]))
    second = (f32([7, 8, 9]), out, s32([2, 0]), s32([1, 1]), s32([4, 0]), s32([2, 1]))
    assert meet(RAGGED, first, second) == [[1, -1, -1, -1, 9], [7, -1, -1, 2, 3]]


def test_ragged_rows_must_fit() -> None:
    part = (f32([1, 2, 3]), f32([0] * 5), s32([0, 2]), s32([1, 2]), s32([0, 3]), s32([1, 1]))
    with pytest.raises(HloError, match="2 rows from row 2 do not fit at row 3"):
        meet(RAGGED, part, part)


@pytest.mark.parametrize(
    ("start", "shape"),
    [
        ("all-gather-start(x), dimensions={0}", "f32[4]"),
        ("collective-permute-start(x), source_target_pairs={{0,0}}", "f32[4]"),
        ("all-reduce-start(x), to_apply=add", "f32[4]"),
    ],
)
def test_starts_hold_operands_and_results(start: str, shape: str) -> None:
    done = start.partition("-start")[0] + "-done"
    pair = f"({shape}, {shape})"
    (result,) = run(X + f"s = {pair} {start} ROOT d = {shape} {done}(s)", A, called=ADD)
    assert result.tolist() == A.tolist()


def test_a_permute_among_one_sends_or_leaves_zeros() -> None:
    entry = X + "ROOT r = f32[4] collective-permute(x), source_target_pairs={}"
    assert run(entry, A)[0].tolist() == [0, 0, 0, 0]
