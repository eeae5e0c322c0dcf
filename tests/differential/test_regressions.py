"""Small modules on which evaluator and machine code once differed, or did not run."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from fuzz.agreement import check, disagreement, largest_angle
from hloc.dtypes import DTYPES
from hloc.errors import HloError, UnsupportedError
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.simulate import compiled

INFINITY, NAN = float("inf"), float("nan")


def module(body: str, before: str = "") -> Module:
    return hloc.parse(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}\n")


@pytest.mark.parametrize(("m", "k", "n", "groups"), [*product((0, 2), (0, 3), (0, 2), (0, 2))])
def test_ragged_dot_of_nothing(m: int, k: int, n: int, groups: int) -> None:
    """The mask of rows was cut out of one that has the contracted dimension."""
    text = f"""
  x = f32[{m},{k}] parameter(0)
  y = f32[{groups},{k},{n}] parameter(1)
  z = s32[{groups}] parameter(2)
  ROOT r = f32[{m},{n}] ragged-dot(x, y, z), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{1}}, lhs_ragged_dims={{0}}, rhs_group_dims={{0}}"""
    arguments = [np.ones((m, k), np.float32), np.ones((groups, k, n), np.float32)]
    check(module(text), [*arguments, np.ones(groups, np.int32)], "table")


@pytest.mark.parametrize("dims", [(0, 3), (3, 0)])
def test_scan_of_nothing_keeps_its_layout(dims: tuple[int, int]) -> None:
    text = f"""
  x = f32[{dims[0]},{dims[1]}] parameter(0)
  y = f32[{dims[1]}] parameter(1)
  ROOT r = (f32[{dims[0]},{dims[1]}]{{0,1}}, f32[{dims[1]}]) scan(x, y), dimensions={{0}},
    num_carries=1, is_reverse=false, to_apply=step"""
    step = f"""
step {{
  c = f32[{dims[1]}] parameter(0)
  x = f32[{dims[1]}] parameter(1)
  m = f32[{dims[1]}] multiply(c, x)
  a = f32[{dims[1]}] add(c, x)
  ROOT t = (f32[{dims[1]}], f32[{dims[1]}]) tuple(m, a)
}}"""
    check(module(text, step), [np.ones(dims, np.float32), np.ones(dims[1], np.float32)], "exact")


def test_functions_of_a_type_without_zero_vanish_to_nan() -> None:
    """e^-128 is 0 in f32, which f8e8m0fnu has not; in f64 it would be the smallest number."""
    dtype = ml_dtypes.float8_e8m0fnu
    text = "  x = f8e8m0fnu[256] parameter(0)\n  ROOT r = f8e8m0fnu[256] FUNCTION(x)"
    every = np.arange(256, dtype=np.uint8).view(dtype)
    for name in ("exponential", "log", "erf", "tanh", "rsqrt", "cbrt", "sine", "logistic"):
        check(module(text.replace("FUNCTION", name)), [every], "ulps")


def test_constants_of_c128_are_compared_by_their_bits() -> None:
    """A row of zeros of both signs was printed as if all were +0; NaN made NumPy warn."""
    value = np.zeros((64, 64), np.complex128)
    value[1, 1] = complex(-0.0, 0.0)
    (found,) = hloc.evaluate(hloc.parse(_printed(value)))
    np.testing.assert_array_equal(np.signbit(found.real), np.signbit(value.real))


def _printed(value: np.ndarray[Any, Any]) -> str:
    """Return the text of a module that returns the constant `value`."""
    made = Module("m")
    b = Builder(made.add_computation("e"))
    b.computation.set_root(b.constant(value, DTYPES["c128"]))
    made.set_entry(b.computation)
    return made.to_text(large_constants=True)


EXTREMES = [
    # opcode, operand, exact value by a library of arbitrary precision
    ("exponential", 710 + 1j, complex(1.2070325234545281e308, INFINITY)),
    ("exponential", complex(-INFINITY, NAN), 0j),
    ("exponential", complex(INFINITY, 0), complex(INFINITY, 0)),
    ("log", 1.5e308 + 1.5e308j, 709.9482473405542 + 0.7853981633974483j),
    ("log", 5e-324 + 5e-324j, -744.0934983311013 + 0.7853981633974483j),
    ("log", complex(NAN, -INFINITY), complex(INFINITY, NAN)),
    ("sqrt", 1.5e308 - 1.5e308j, 1.345607733249115e154 - 5.5736897274590134e153j),
    ("sqrt", -5e-324 + 1e-323j, 1.747424853330061e-162 + 2.8273928054743385e-162j),
    ("sqrt", complex(NAN, -INFINITY), complex(INFINITY, -INFINITY)),
    ("rsqrt", 1e-320 + 1e-320j, 7.768913115215779e159 - 3.217989177220587e159j),
    ("sine", 1.5 + 711j, complex(INFINITY, 2.1478033373565022e307)),
    ("cosine", 0.5 - 710.5j, 1.6161712674728972e308 + 8.829183874344385e307j),
    ("sinh", -710.5 + 1j, -9.950300979231658e307 + 1.5496675607696623e308j),
    ("cosh", 711 + 1.5j, complex(2.1478033373565022e307, INFINITY)),
    ("tan", 1.5707963267948966 + 1e-9j, 61.23233995736742 + 999999999.9999962j),
    ("tanh", 400 + 1j, 1 + 0j),
    ("tanh", complex(-INFINITY, INFINITY), -1 + 0j),
    ("asin", 1e300 - 1e308j, 1e-8 - 709.889355822726j),
    ("acos", -1.7e308 + 1.7e308j, 2.356194490192345 - 710.7665576640682j),
    ("acos", complex(-INFINITY, INFINITY), complex(2.356194490192345, -INFINITY)),
    ("asinh", 5e-324 - 1e-320j, 5e-324 - 1e-320j),
    ("acosh", -1e200 + 1e-200j, 461.2101657793691 + 3.141592653589793j),
    ("atanh", 1e200 + 1e200j, 5e-201 + 1.5707963267948966j),
    ("atanh", 1 + 1e-200j, 230.60508288968455 + 0.7853981633974483j),
    ("atanh", complex(0, -INFINITY), -1.5707963267948966j),
    ("exponential-minus-one", 1e-20 - 1e-18j, 1e-20 - 1e-18j),
    ("exponential-minus-one", 709.9 + 0.75j, 1.4790373839813394e308 + 1.3778659910419577e308j),
    ("log-plus-one", 1e-20 + 1e-12j, 1.00005e-20 + 1e-12j),
    ("log-plus-one", -1.6e308 + 1.6e308j, 710.0127858616918 + 2.356194490192345j),
    ("logistic", 1e-9 + 3.141592653589793j, 1000000000.499985 + 122.46467991473347j),
    ("logistic", complex(-INFINITY, INFINITY), 0j),
    ("sign", 3e-320 - 4e-320j, 0.6 - 0.8j),
    ("sign", 1.5e308 + 1.5e308j, 0.7071067811865476 + 0.7071067811865476j),
]


@pytest.mark.parametrize(("name", "z", "exact"), EXTREMES, ids=lambda value: str(value))
def test_complex_functions_of_extreme_numbers(name: str, z: complex, exact: complex) -> None:
    """Evaluator and machine code give what the function is, not what its formula overflows to."""
    made = module(f"  z = c128[1] parameter(0)\n  ROOT r = c128[1] {name}(z)")
    want = np.array([exact])
    for got in (hloc.evaluate(made, np.array([z])), hloc.compile(made)(np.array([z]))):
        assert disagreement(np.asarray(got[0]), want, "complex") is None


QUOTIENTS = [
    (1.7e308 + 1.7e308j, 2 + 2j, 8.5e307 + 0j),
    (5e-324 + 5e-324j, 5e-324 + 0j, 1 + 1j),
    (1 + 0j, 1e-310 + 1e-310j, complex(INFINITY, -INFINITY)),
    (1e-300 + 0j, 1e-308 + 1e-308j, 5e7 - 5e7j),
    (1 + 1j, complex(INFINITY, NAN), 0j),
    (complex(INFINITY, NAN), 2 + 0j, complex(INFINITY, NAN)),
    (complex(1, INFINITY), 0j, complex(INFINITY, INFINITY)),
    (0j, 0j, complex(NAN, NAN)),
]


@pytest.mark.parametrize(("z", "w", "exact"), QUOTIENTS, ids=lambda value: str(value))
def test_quotients_of_extreme_numbers(z: complex, w: complex, exact: complex) -> None:
    made = module(
        "  z = c128[1] parameter(0)\n  w = c128[1] parameter(1)\n  ROOT r = c128[1] divide(z, w)"
    )
    arguments = [np.array([z]), np.array([w])]
    for got in (hloc.evaluate(made, *arguments), hloc.compile(made)(*arguments)):
        assert disagreement(np.asarray(got[0]), np.array([exact]), "complex") is None


def test_powers_with_large_angles_are_compared_as_rounding_turns_them() -> None:
    """The exponent w log z is -144.9 - 3198.5i; neighbours there lie 4.5e-13 apart.

    The power was computed with 60 digits. A fixed bound of 2048 units refused what both gave.
    """
    z, w = (
        np.array([-5.8826058941835536e113 - 1.7976931348623157e308j]),
        np.array([-0.19423696588995337 - 4.506722361430284j]),
    )
    exact = np.array([1.0577600476631528e-63 - 3.8275468927520007e-64j])
    made = module(
        "  z = c128[1] parameter(0)\n  w = c128[1] parameter(1)\n  ROOT r = c128[1] power(z, w)"
    )
    how = f"power {largest_angle(z, w)}"
    for got in (hloc.evaluate(made, z, w), hloc.compile(made)(z, w)):
        assert disagreement(np.asarray(got[0]), exact, how) is None
    assert disagreement(exact * (1 + 4e-12), exact, how) is None
    assert disagreement(exact * (1 + 4e-12), exact, "power 1000") is not None
    assert disagreement(exact * (1 + 9e-12), exact, how) is not None


@pytest.mark.parametrize("state", ["u64[3]", "u32[2]"])
def test_a_state_that_does_not_fit_its_generator_is_refused(state: str) -> None:
    """Machine code took the state apart without looking; the evaluator looked."""
    made = module(
        f"  s = {state} parameter(0)\n"
        f"  ROOT r = ({state}, u32[4]) rng-bit-generator(s), algorithm=rng_three_fry"
    )
    with pytest.raises(HloError, match="state of rng_three_fry must be"):
        hloc.compile(made)


def test_an_all_reduce_may_change_the_type() -> None:
    """Machine code read the bytes of a bf16 array as those of a wider one, past its end."""
    sums = (
        "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}"
    )
    made = module(
        "  x = bf16[3] parameter(0)\n"
        "  ROOT r = f32[3] all-reduce(x), replica_groups={}, to_apply=sum",
        sums,
    )
    check(made, [np.array([1, -2, 3], ml_dtypes.bfloat16)], "exact")


def test_an_add_dependency_of_a_tuple_hands_on_its_leaves() -> None:
    made = module("""
  p = f32[3] parameter(0)
  q = f32[3] parameter(1)
  t = token[] after-all()
  pair = (f32[3], token[], f32[3]) tuple(p, t, q)
  later = (f32[3], token[], f32[3]) add-dependency(pair, t)
  x = f32[3] get-tuple-element(later), index=0
  y = f32[3] get-tuple-element(later), index=2
  ROOT r = f32[3] subtract(x, y)""")
    check(made, [np.arange(3, dtype=np.float32), np.ones(3, np.float32)], "exact")


def test_a_constant_may_be_a_tuple() -> None:
    check(module("  ROOT c = (f32[2], s32[]) constant(({1, 2}, 3))"), [], "exact")


REFUSED = {
    "PadToStatic": """
  q = f32[<=10] parameter(0)
  n = (f32[10], s32[]) custom-call(), custom_call_target="PadToStatic"
  k = (f32[10], s32[]) custom-call(q), custom_call_target="PadToStatic"
  ROOT t = ((f32[10], s32[]), (f32[10], s32[])) tuple(n, k)""",
    "SliceToDynamic": """
  p = f32[10] parameter(0)
  s = s32[] parameter(1)
  ROOT n = f32[<=12] custom-call(p, s), custom_call_target="SliceToDynamic\"""",
}


@pytest.mark.parametrize("target", REFUSED)
def test_custom_calls_of_sizes_with_shapes_that_do_not_fit_are_refused(target: str) -> None:
    """No operand, another bound: both failed with an exception where sizes are taken apart."""
    with pytest.raises(HloError, match=f'"{target}" is not known with these shapes'):
        hloc.compile(module(REFUSED[target]), opt_level=0)


def test_arrays_of_more_dimensions_than_numpy_has_stay_inside() -> None:
    """Compiled code has no such limit; arguments, results and the evaluator have NumPy's."""
    many = f"f32[{','.join('1' * 65)}]"
    inside = module(f"""
  p = f32[] parameter(0)
  b = {many} broadcast(p), dimensions={{}}
  ROOT r = f32[] reshape(b)""")
    (found,) = hloc.compile(inside, opt_level=0)(np.float32(3))
    assert found == 3
    with pytest.raises(UnsupportedError, match="more than 64 dimensions"):
        hloc.evaluate(inside, np.asarray(3, np.float32))
    with pytest.raises(UnsupportedError, match="at most 64"):
        hloc.compile(module(f"  ROOT p = {many} parameter(0)"))
    with pytest.raises(UnsupportedError, match="at most 64"):
        GpuExecutable(compiled(f"ENTRY e {{ ROOT p = {many} parameter(0) }}"), SimulatedDevice())


def test_padding_beyond_all_memory_is_refused_in_words() -> None:
    text = """
  p = f32[4] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[3] reduce-window(p, zero), window={size=1 stride=2305843009213693952
    pad=0_4611686018427387904}, to_apply=add"""
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    with pytest.raises(HloError, match="more memory than is available"):
        hloc.evaluate(module(text, add), np.ones(4, np.float32))
