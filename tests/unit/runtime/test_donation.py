"""Arguments that the caller gives away, and all others, which are never written."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.runtime.executable import Executable
from tests.tolerance import bounds
from tests.unit.memory.test_aliasing import aliased_randomly
from tests.waiting import all_at_once

DECODE = """
HloModule decode, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  keys = f32[ROWS,64] parameter(0)
  values = f32[ROWS,64] parameter(1)
  row = f32[1,64] parameter(2)
  at = s32[] parameter(3)
  zero = s32[] constant(0)
  new.keys = f32[ROWS,64] dynamic-update-slice(keys, row, at, zero)
  twice = f32[1,64] add(row, row)
  new.values = f32[ROWS,64] dynamic-update-slice(values, twice, at, zero)
  head = f32[16,64] slice(new.keys), slice={[0:16], [0:64]}
  tail = f32[16,64] slice(new.values), slice={[0:16], [0:64]}
  product = f32[16,64] multiply(head, tail)
  start = f32[] constant(0)
  scores = f32[16] reduce(product, start), dimensions={1}, to_apply=add
  ROOT result = (f32[ROWS,64], f32[ROWS,64], f32[16]) tuple(new.keys, new.values, scores)
}
"""

ADD = """
HloModule add, input_output_alias={ {}: (0, {}, KIND) }
ENTRY main {
  x = f32[8,3] parameter(0)
  y = f32[8,3] parameter(1)
  ROOT sum = f32[8,3] add(x, y)
}
"""


def decode(rows: int) -> Executable:
    return hloc.compile(DECODE.replace("ROWS", str(rows)))


def same_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.ctypes.data == b.ctypes.data


def test_a_decode_step_works_in_the_cache_that_is_given_away() -> None:
    step = decode(32)
    keys, values = np.zeros((32, 64), np.float32), np.zeros((32, 64), np.float32)
    token = np.ones((1, 64), np.float32)
    new_keys, new_values, _ = step(keys, values, token, np.int32(3), donate=(0, 1))
    assert new_keys is keys
    assert new_values is values
    assert (keys.sum(), values.sum()) == (64, 128)
    assert keys[3].all()


def test_a_decode_step_writes_no_argument_that_is_not_given_away() -> None:
    step = decode(32)
    keys, values = np.zeros((32, 64), np.float32), np.zeros((32, 64), np.float32)
    token = np.ones((1, 64), np.float32)
    expected = hloc.evaluate(
        DECODE.replace("ROWS", "32"), keys, values, token, np.array(3, np.int32)
    )
    for donate in ((), (0,), (1,)):
        given_keys, given_values = keys.copy(), values.copy()
        found = step(given_keys, given_values, token, np.int32(3), donate=donate)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
        assert same_memory(found[0], given_keys) == (0 in donate)
        assert same_memory(found[1], given_values) == (1 in donate)
        assert given_keys.any() == (0 in donate)
        assert given_values.any() == (1 in donate)


def test_a_decode_step_takes_no_time_for_the_cache() -> None:
    """128 MiB of cache: copied, it takes tens of milliseconds."""
    step = decode(1 << 18)
    keys, values = (np.zeros((1 << 18, 64), np.float32) for _ in range(2))
    token = np.ones((1, 64), np.float32)
    seconds = []
    for i in range(20):
        started = time.process_time()
        keys, values, _ = step(keys, values, token, np.int32(i), donate=(0, 1))
        seconds.append(time.process_time() - started)
    assert min(seconds) < 2e-3
    assert keys.sum() == 20 * 64


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), which=st.integers(0, 15))
def test_random_loops_equal_the_evaluator(seed: int, which: int) -> None:
    module = aliased_randomly(seed)
    rng = np.random.default_rng(seed)
    count = len(module.entry.parameters)
    arrays = list(rng.integers(-3, 4, (count, 6, 2, 2)).astype(np.float32))
    before = [array.copy() for array in arrays]
    expected = hloc.evaluate(module, *arrays)
    donate = [i for i in range(len(arrays)) if which >> i & 1]
    for level in (0, 2):
        given_arrays = [array.copy() for array in arrays]
        found = hloc.compile(module, opt_level=level)(*given_arrays, donate=donate)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
        for i, (x, y) in enumerate(zip(given_arrays, before, strict=True)):
            if i not in donate:
                np.testing.assert_array_equal(x, y, err_msg="an argument was overwritten")


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "make",
    [
        read_only,
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(8, 3),
    ],
    ids=["read-only", "other order", "every second row", "unaligned"],
)
@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
def test_arrays_that_cannot_serve_are_copied(make: Any, kind: str) -> None:
    x = make(np.arange(24, dtype=np.float32).reshape(8, 3))
    before = x.copy()
    y = np.ones((8, 3), np.float32)
    (found,) = hloc.compile(ADD.replace("KIND", kind))(x, y, donate=(0,))
    np.testing.assert_array_equal(found, before + 1)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_arguments_that_overlap_are_not_overwritten(offset: int) -> None:
    memory = np.arange(60, dtype=np.float32)
    x = memory[6:30].reshape(8, 3)
    y = memory[6 + offset : 30 + offset].reshape(8, 3)
    expected = x + y
    (found,) = hloc.compile(ADD.replace("KIND", "may-alias"))(x, y, donate=(0,))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(memory, np.arange(60))


def test_must_alias_is_honoured_with_a_copy() -> None:
    text = """
    HloModule m, input_output_alias={ {0}: (0, {}, must-alias) }
    ENTRY e {
      p = f32[8] parameter(0)
      r = f32[8] reverse(p), dimensions={0}
      s = f32[8] reverse(r), dimensions={0}
      ROOT t = (f32[8], f32[8]) tuple(r, s)
    }"""
    executable = hloc.compile(text, opt_level=0)
    assert [alias.how for alias in executable.aliases] == ["copied"]
    x = np.arange(8, dtype=np.float32)
    r, s = executable(x, donate=(0,))
    assert r is x
    np.testing.assert_array_equal(r, np.arange(8)[::-1])
    np.testing.assert_array_equal(s, np.arange(8))


def test_an_output_of_another_shape_is_a_view() -> None:
    text = """
    HloModule m, input_output_alias={ {}: (0, {}) }
    ENTRY e {
      p = f32[2,3] parameter(0)
      n = f32[2,3] negate(p)
      r = f32[6] reshape(n)
      ROOT b = s32[6] bitcast-convert(r)
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = (-x).reshape(6).view(np.int32)
    (found,) = hloc.compile(text)(x, donate=(0,))
    assert same_memory(found, x)
    np.testing.assert_array_equal(found, expected)


def test_results_given_away_again_are_not_recycled() -> None:
    """The array a frame keeps may come back as an argument; its memory is then in use."""
    executable = hloc.compile(ADD.replace("KIND", "may-alias"))
    one = np.ones((8, 3), np.float32)
    (x,) = executable(one, one)
    for i in range(10):
        (x,) = executable(x, one, donate=(0,))
        others = [executable(one, one)[0] for _ in range(3)]
        assert not any(same_memory(x, other) for other in others)
        assert (x == 3 + i).all()


def test_two_threads_give_away_arrays_of_their_own() -> None:
    step = decode(64)
    faults: list[str] = []

    def work(value: float) -> None:
        keys, values = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
        first = keys
        token = np.full((1, 64), value, np.float32)
        for i in range(300):
            keys, values, _ = step(keys, values, token, np.int32(i % 64), donate=(0, 1))
        if keys is not first or not (keys == value).all() or not (values == 2 * value).all():
            faults.append(f"wrong cache in the thread of {value}")

    all_at_once(2, lambda number: work(number + 1.0))
    assert not faults


def test_numbers_that_are_no_arguments_are_refused() -> None:
    executable = hloc.compile(ADD.replace("KIND", "may-alias"))
    one = np.ones((8, 3), np.float32)
    wrong: list[Any] = [(2,), (-1,), (0.0,), ("0",)]
    for donate in wrong:
        with pytest.raises(hloc.HloError, match="donate holds numbers of the 2 arguments"):
            executable(one, one, donate=donate)


@pytest.mark.jax
def test_donated_arguments_of_jax() -> None:
    """`donate_argnums` becomes aliases; a pytree has one parameter per leaf."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def train(params: Any, momentum: Any, x: Any, y: Any) -> Any:
        def loss(p: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value

    rng = np.random.default_rng(0)
    shapes = {"v": (32, 4), "w": (16, 32)}
    params = {k: rng.standard_normal(s, np.float32) for k, s in shapes.items()}
    momentum = {k: np.zeros(s, np.float32) for k, s in shapes.items()}
    x, y = rng.standard_normal((8, 16), np.float32), rng.standard_normal((8, 4), np.float32)
    lowered = jax.jit(train, donate_argnums=(0, 1)).lower(params, momentum, x, y)
    executable = hloc.compile(lowered.compiler_ir("hlo").as_hlo_text())
    assert len(executable.aliases) == 4
    # JAX reads the arrays where they lie, and later: it must be done before they are given away.
    expected = [np.array(a) for a in jax.tree.leaves(jax.jit(train)(params, momentum, x, y))]
    arguments = jax.tree.leaves((params, momentum, x, y))
    found = executable(*arguments, donate=range(4))
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, wanted, **bounds("f32 short sum"))
    shared = [a for a in executable.aliases if a.is_shared]
    assert len(shared) >= 3
    for alias in shared:
        assert found[alias.output] is arguments[alias.parameter]
