"""Calls, loops, branches, tokens, async pairs, collectives, custom calls."""

import numpy as np
import pytest

from hloc.errors import HloError, UnsupportedError
from hloc.ops import OPCODES
from tests.unit.ops.programs import ADD, f32, run, s32

LOOP = (
    "cond { p = (s32[], f32[2]) parameter(0) i = get-tuple-element(p), index=0 "
    "n = s32[] constant(5) ROOT c = compare(i, n), direction=LT }\n"
    "body { p = (s32[], f32[2]) parameter(0) i = get-tuple-element(p), index=0 "
    "o = s32[] constant(1) j = add(i, o) v = get-tuple-element(p), index=1 w = add(v, v) "
    "ROOT r = tuple(j, w) }\n"
)
ENTRY = "s = s32[] parameter(0) v = f32[2] parameter(1) t = tuple(s, v) ROOT w = while(t), "


@pytest.mark.parametrize(("start", "times"), [(0, 5), (4, 1), (9, 0)])
def test_while_tests_before_the_body(start: int, times: int) -> None:
    counter, values = run(ENTRY + "condition=cond, body=body", s32(start), f32([1, 2]), called=LOOP)
    assert counter == max(start, 5)
    assert values.tolist() == [2**times, 2 * 2**times]


BRANCHES = "".join(
    f"b{n} {{ p = f32[] parameter(0) k = f32[] constant({10 * n}) ROOT r = add(p, k) }}\n"
    for n in range(3)
)


@pytest.mark.parametrize(("index", "expected"), [(0, 1), (1, 12), (2, 23), (7, 23), (-1, 23)])
def test_conditional_takes_the_last_branch_out_of_range(index: int, expected: int) -> None:
    (result,) = run(
        "i = s32[] parameter(0) x = f32[] constant(1) y = f32[] constant(2) z = f32[] constant(3) "
        "ROOT c = conditional(i, x, y, z), branch_computations={b0, b1, b2}",
        s32(index),
        called=BRANCHES,
    )
    assert result == expected


@pytest.mark.parametrize(("taken", "expected"), [(True, 1), (False, 12)])
def test_conditional_on_pred_takes_operand_1_if_true(taken: bool, expected: int) -> None:
    (result,) = run(
        "i = pred[] parameter(0) x = f32[] constant(1) y = f32[] constant(2) "
        "ROOT c = conditional(i, x, y), true_computation=b0, false_computation=b1",
        np.array(taken),
        called=BRANCHES,
    )
    assert result == expected


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("r = call(x, x), to_apply=b0", "takes 1 parameters, but 2 arguments"),
        ("r = call(v), to_apply=b0", r"parameter 0 .* f32\[\], but f32\[2\] is passed"),
        ("r = while(x), condition=b0, body=b0", r"result of condition b0 has shape f32\[\]"),
        ("r = get-tuple-element(t), index=2", "index 2 is out of range for a tuple of 2"),
        ("r = get-tuple-element(x), index=0", r"must be a tuple, but is f32\[\]"),
        ("r = add-dependency(x, x)", r"operand 1 must be token\[\]"),
    ],
)
def test_what_does_not_fit_is_refused(entry: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        run(
            f"x = f32[] parameter(0) v = f32[2] parameter(1) t = tuple(x, v) ROOT {entry}",
            called=BRANCHES,
        )


def test_tokens_and_barriers_hand_values_on() -> None:
    (result,) = run(
        "x = f32[] parameter(0) t = after-all() u = after-all(t, t) y = add-dependency(x, u) "
        "p = (f32[]) tuple(y) b = (f32[]) opt-barrier(p) ROOT r = get-tuple-element(b), index=0",
        f32(3),
    )
    assert result == 3


def test_async_pairs_run_at_the_start() -> None:
    (result,) = run(
        "p = f32[4] parameter(0) s = ((f32[4]), f32[4], s32[]) negate-start(p) "
        "u = ((f32[4]), f32[4], s32[]) negate-update(s) ROOT d = f32[4] negate-done(u)",
        f32([1, 2, 3, 4]),
    )
    assert result.tolist() == [-1, -2, -3, -4]
    (result,) = run(
        "p = f32[2] parameter(0) s = (f32[2], f32[2], u32[]) copy-start(p) "
        "ROOT d = f32[2] copy-done(s)",
        f32([1, 2]),
    )
    assert result.tolist() == [1, 2]


def test_all_reduce_of_one_participant_is_the_identity() -> None:
    (result,) = run(
        "p = f32[2] parameter(0) s = f32[2] all-reduce-start(p), to_apply=add "
        "d = f32[2] all-reduce-done(s) ROOT r = f32[2] all-reduce(d), to_apply=add",
        f32([1, 2]),
        called=ADD,
    )
    assert result.tolist() == [1, 2]


@pytest.mark.parametrize(
    "entry",
    [
        "p = f32[2] parameter(0) ROOT g = f32[4] all-gather(p), dimensions={0}",
        "t = token[] after-all() i = (f32[2], token[]) infeed(t) "
        "ROOT r = f32[2] get-tuple-element(i), index=0",
        "ROOT s = u64[2] rng-get-and-update-state(), delta=1",
        "p = f32[2] parameter(0) t = token[] after-all() o = token[] outfeed(p, t) "
        "ROOT r = f32[2] negate(p)",
    ],
)
def test_what_needs_other_devices_or_the_host_is_refused_by_name(entry: str) -> None:
    given = [f32([1, 2])] if "p = " in entry else []
    with pytest.raises(UnsupportedError, match=r"cannot run (all-gather|infeed|rng-get|outfeed)"):
        run(entry, *given)


def test_every_refusal_gives_a_reason() -> None:
    refused = [row for row in OPCODES.values() if row.refusal]
    assert {"send", "recv", "infeed"} <= {row.name for row in refused}
    assert all(row.evaluate is None and len(row.refusal) > 20 for row in refused)


def test_replica_and_partition_are_0() -> None:
    assert run("ROOT r = replica-id()")[0] == 0
    assert run("ROOT r = partition-id()")[0] == 0


@pytest.mark.parametrize("target", ["Sharding", "xla.sdy.ShardingConstraint", "MoveToHost"])
def test_hints_are_the_identity(target: str) -> None:
    (result,) = run(
        f'p = f32[2] parameter(0) ROOT c = f32[2] custom-call(p), custom_call_target="{target}"',
        f32([1, 2]),
    )
    assert result.tolist() == [1, 2]


def test_topk_is_known_and_other_targets_are_named() -> None:
    values, indices = run(
        "p = f32[1,4] parameter(0) ROOT c = (f32[1,2], s32[1,2]) custom-call(p), "
        'custom_call_target="TopK"',
        f32([[1, 4, 2, 4]]),
    )
    assert values.tolist() == [[4, 4]]
    assert indices.tolist() == [[1, 3]]
    with pytest.raises(UnsupportedError, match='target "my_op" is not known'):
        run('ROOT c = f32[] custom-call(), custom_call_target="my_op"')
    with pytest.raises(UnsupportedError, match='"Sharding" is not known with these shapes'):
        run(
            'p = f32[] parameter(0) ROOT c = f32[2] custom-call(p), custom_call_target="Sharding"',
            f32(0),
        )
