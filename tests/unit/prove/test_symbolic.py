"""A computation run on terms gives terms that stand for the evaluator's values.

Protects the part of a proof that needs no solver: which element goes where, and what is added up.
"""

from typing import Any

import numpy as np
import pytest

import hloc
from hloc.ops import OPCODES
from hloc.prove.symbolic import SPECIAL, SymbolicRun
from hloc.prove.terms import CannotFollowError, Term

MODULES = {
    "moves": """
  x = s32[2,3] parameter(0)
  t = s32[3,2] transpose(x), dimensions={1,0}
  r = s32[6] reshape(t)
  s = s32[3] slice(r), slice={[1:6:2]}
  z = s32[] constant(7)
  p = s32[5] pad(s, z), padding=0_2_0
  q = s32[6] pad(s, z), padding=-1_2_1
  v = s32[6] reverse(q), dimensions={0}
  b = s32[6] bitcast(x)
  i = s32[2,1] constant({{9}, {1}})
  g = s32[2] gather(v, i), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  ROOT c = s32[19] concatenate(p, v, b, g), dimensions={0}
""",
    "computed places": """
  x = s32[2,3] parameter(0)
  i = s32[] constant(5)
  j = s32[] constant(-3)
  k = s32[] constant(1)
  d = s32[1,2] dynamic-slice(x, i, k), dynamic_slice_sizes={1,2}
  ROOT u = s32[2,3] dynamic-update-slice(x, d, j, k)
""",
    "counts": """
  x = s32[2,3] parameter(0)
  i = s32[2,3] iota(), iota_dimension=1
  c = s32[2,3] constant({{1,2,3},{4,5,6}})
  ROOT t = (s32[2,3], s32[2,3], s32[2,3]) tuple(x, i, c)
""",
}


def module_of(body: str, before: str = "") -> Any:
    return hloc.parse(f"HloModule m\n{before}\nENTRY e {{{body}}}\n")


def results_of(module: Any) -> list[list[Term]]:
    run = SymbolicRun()
    result = run.call(module.entry, *run.inputs(module.entry))
    return [list(part.reshape(-1)) for part in (result if isinstance(result, tuple) else (result,))]


def value_of(term: Term, inputs: list[np.ndarray[Any, Any]]) -> Any:
    """Return what a term is for given inputs: literals, symbols and selects of known places."""
    if term.op == "symbol":
        number, index = term.detail
        return inputs[number].reshape(-1)[index]
    if term.op == "select":
        chosen, yes, no = (value_of(arg, inputs) for arg in term.args)
        return yes if chosen else no
    if term.op == "compare":
        left, right = (value_of(arg, inputs) for arg in term.args)
        assert term.detail == ("LE", "SIGNED")
        return left <= right
    numpy = term.dtype.numpy
    if isinstance(term.detail, bytes):
        return np.frombuffer(term.detail, numpy)[0]
    return np.asarray(np.nan if term.detail == "nan" else term.detail).astype(numpy)[()]


@pytest.mark.parametrize("name", MODULES)
def test_moves_take_the_elements_that_the_evaluator_takes(name: str) -> None:
    module = module_of(MODULES[name])
    inputs = [np.arange(10, 16, dtype=np.int32).reshape(2, 3)]
    got = [[value_of(term, inputs) for term in part] for part in results_of(module)]
    want = [array.reshape(-1).tolist() for array in hloc.evaluate(module, *inputs)]
    assert got == want


def test_sums_in_another_order_are_one_term() -> None:
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
    body = """
  x = f32[2,3] parameter(0)
  t = f32[3,2] transpose(x), dimensions={1,0}
  z = f32[] constant(0)
  a = f32[] reduce(x, z), dimensions={0,1}, to_apply=add
  b = f32[] reduce(t, z), dimensions={0,1}, to_apply=add
  ROOT r = (f32[], f32[]) tuple(a, b)
"""
    (a,), (b,) = results_of(module_of(body, add))
    assert a is b


def test_reducers_without_an_order_fold_from_the_left() -> None:
    less = "less { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] subtract(a, b) }"
    body = """
  x = s32[2] parameter(0)
  z = s32[] constant(9)
  ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=less
"""
    ((term,),) = results_of(module_of(body, less))
    assert [arg.op for arg in term.args] == ["subtract", "symbol"]
    assert term.args[1].detail == (0, 1)


def test_a_product_of_matrices_sums_the_right_pairs() -> None:
    body = """
  x = s32[2,2] parameter(0)
  y = s32[2,2] parameter(1)
  ROOT d = s32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""
    (terms,) = results_of(module_of(body))
    pairs = [{tuple(arg.detail for arg in product.args) for product in t.args} for t in terms]
    rows, columns = ((0, 1), (2, 3)), ((0, 2), (1, 3))
    assert pairs == [
        {((0, i), (1, j)) for i, j in zip(row, column, strict=True)}
        for row in rows
        for column in columns
    ]


def test_only_moves_along_a_fixed_map_are_read_off_the_evaluator() -> None:
    """The others would take numbers of elements for places."""
    rows = (row.name for row in OPCODES.values() if row.data_movement and row.name not in SPECIAL)
    static = ("bitcast", "broadcast", "concatenate", "copy", "pad", "reshape", "reverse", "slice")
    assert sorted(rows) == [*static, "transpose"]


def test_what_has_no_meaning_is_named() -> None:
    body = """
  x = s32[4] parameter(0)
  i = s32[2,1] parameter(1)
  ROOT g = s32[2] gather(x, i), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1}
"""
    with pytest.raises(CannotFollowError, match="gather"):
        results_of(module_of(body))
