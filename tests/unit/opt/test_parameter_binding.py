"""Modules whose parameters became constants: results, numbering, header, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.ir.verifier import verify
from tests.tolerance import assert_close

LAYER = """HloModule layer, entry_computation_layout={
  (f32[20,300]{1,0}, f32[300,64]{0,1}, f32[64]{0})->f32[20,64]{1,0}}

ENTRY e {
  x = f32[20,300] parameter(0)
  w = f32[300,64]{0,1} parameter(1)
  b = f32[64] parameter(2)
  d = f32[20,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[20,64] broadcast(b), dimensions={1}
  ROOT r = f32[20,64] add(d, c)
}
"""

STATE = """HloModule state, input_output_alias={ {}: (1, {}, may-alias) }

ENTRY e {
  w = f32[8] parameter(0)
  s = f32[8] parameter(1)
  ROOT r = f32[8] add(w, s)
}
"""


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(size, dtype=np.float32) for size in ((20, 300), (300, 64), 64)]


@pytest.mark.parametrize("bound", [(1,), (1, 2), (0,), (0, 1, 2)])
def test_the_results_are_those_with_arguments(bound: tuple[int, ...]) -> None:
    values = arrays()
    module = hloc.parse(LAYER)
    names = [parameter.name for parameter in module.entry.parameters]
    by_name = module.bind({names[number]: values[number] for number in bound})
    by_number = module.bind({number: values[number] for number in bound})
    verify(by_number)
    assert str(by_name) == str(by_number)
    others = [value for number, value in enumerate(values) if number not in bound]
    (wanted,) = hloc.compile(LAYER)(*values)
    (found,) = hloc.compile(by_number)(*others)
    assert_close(found, wanted)
    assert found.tobytes() == hloc.compile(by_name, threads=3)(*others)[0].tobytes()
    assert len(module.entry.parameters) == 3


def test_the_text_of_the_module_can_be_read_again() -> None:
    text = hloc.parse(LAYER).bind({"w": arrays()[1]}).to_text(large_constants=True)
    again = hloc.parse(text)
    assert [p.name for p in again.entry.parameters] == ["x", "b"]
    assert "(f32[20,300]{1,0}, f32[64]{0})->" in text


def test_later_changes_of_the_array_do_not_matter() -> None:
    values = arrays()
    module = hloc.parse(LAYER).bind({2: values[2]})
    (wanted,) = hloc.evaluate(module, *values[:2])
    values[2][:] = 0
    assert hloc.evaluate(module, *values[:2])[0].tobytes() == wanted.tobytes()


def test_a_result_may_take_the_memory_of_another_parameter() -> None:
    module = hloc.parse(STATE).bind({"w": np.ones(8, np.float32)})
    assert module.config.aliases[0].parameter == 0
    assert hloc.compile(module)(np.ones(8, np.float32))[0].tolist() == [2] * 8


def test_narrow_floats() -> None:
    module = hloc.parse(STATE.replace("f32", "bf16"))
    bound = module.bind({0: np.ones(8, ml_dtypes.bfloat16)})
    assert hloc.compile(bound)(np.ones(8, ml_dtypes.bfloat16))[0].tolist() == [2] * 8


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (3, np.ones(8, np.float32), "there is no parameter 3; parameters are w, s"),
        ("v", np.ones(8, np.float32), "there is no parameter 'v'; parameters are w, s"),
        ("w", np.ones(8), "parameter w is f32[8], not float64[8]"),
        ("w", np.ones((2, 4), np.float32), "parameter w is f32[8], not float32[2,4]"),
        ("s", np.ones(8, np.float32), "parameter s shares memory with a result"),
    ],
)
def test_what_is_refused(key: Any, value: np.ndarray, message: str) -> None:
    with pytest.raises(hloc.HloError) as found:
        hloc.parse(STATE).bind({key: value})
    assert message in str(found.value)


def test_a_tuple_is_refused() -> None:
    text = """HloModule m
ENTRY e {
  t = (f32[8], f32[8]) parameter(0)
  ROOT r = f32[8] get-tuple-element(t), index=1
}
"""
    with pytest.raises(hloc.HloError, match="parameter t is no array of fixed sizes"):
        hloc.parse(text).bind({0: np.ones(8, np.float32)})
