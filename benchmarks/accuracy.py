"""Errors of the elementary functions of machine code, in units in the last place: docs/accuracy.md.

    python benchmarks/accuracy.py              print the table
    python benchmarks/accuracy.py --write      rewrite docs/accuracy.md

Every value of the 16-bit types, and dense samples of f32 and f64, go through compiled modules. The
reference for f32 and narrower is NumPy in f64, for f64 NumPy in the machine's long double (80 bits
on x86). Where jax is installed XLA:CPU runs the same values.
"""

from __future__ import annotations

import argparse
import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hloc
from hloc.dtypes import BF16, F16, F32, F64, DType

Array = np.ndarray[Any, np.dtype[Any]]
Reference = Callable[..., Array]
PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
CHUNK = 1 << 20

# ---------------------------------------------------------------- references


def _logistic(x: Array) -> Array:
    left = x < 0
    power = np.exp(np.where(left, x, -x))
    return np.asarray(np.where(left, power, 1) / (1 + power))


_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    """Return erf by the C library, in long double for f64: NumPy has none."""
    if x.dtype == np.float64:
        return np.asarray(_ERF(x), dtype=np.float64)
    erfl = ctypes.CDLL(None).erfl
    erfl.restype, erfl.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]
    return np.asarray(np.frompyfunc(erfl, 1, 1)(x), dtype=x.dtype)


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


@dataclass(frozen=True)
class Function:
    """One function: its opcode, the reference, and where dense samples are worth it.

    Attributes:
        spans: intervals of f32 in which every range of bits is sampled.
        bounds: largest error in ulp that is promised: f32, f64, narrower types.
    """

    opcode: str
    reference: Reference
    spans: tuple[tuple[float, float], ...]
    bounds: dict[str, float]
    arity: int = 1


NARROW = 0.51
"""Rounded once from f32, which itself may be off by a few ulp of f32."""


def _row(
    opcode: str,
    reference: Reference,
    f32: float,
    f64: float,
    *spans: tuple[float, float],
    arity: int = 1,
) -> Function:
    bounds = {"f32": f32, "f64": f64, "bf16": NARROW, "f16": NARROW}
    return Function(opcode, reference, spans, bounds, arity)


FUNCTIONS = (
    _row("exponential", np.exp, 1.2, 1, (-104, 89), (-1, 1)),
    _row("exponential-minus-one", np.expm1, 2, 1, (-18, 89), (-1, 1)),
    _row("log", np.log, 1.2, 1, (0.5, 2), (0, 1e-38), (0.9, 1.1)),
    _row("log-plus-one", np.log1p, 2, 1, (-1, 1), (-0.01, 0.01), (1, 1e10)),
    _row("logistic", _logistic, 2.3, 2.3, (-104, 20), (-1, 1)),
    _row("tanh", np.tanh, 1.5, 2.5, (-10, 10), (-0.7, 0.7)),
    _row("erf", _erf, 2, 1.2, (-4, 4), (-1.1, 1.1)),
    _row("sine", np.sin, 1.7, 1, (-7, 7), (-1e5, 1e5), (-3e38, 3e38)),
    _row("cosine", np.cos, 1.7, 1, (-7, 7), (-1e5, 1e5), (-3e38, 3e38)),
    _row("tan", np.tan, 4, 1, (-7, 7), (-1e5, 1e5), (-3e38, 3e38)),
    _row("asin", np.arcsin, 2.7, 1, (-1, 1), (0.4, 0.6)),
    _row("acos", np.arccos, 1.7, 1, (-1, 1), (0.4, 0.6)),
    _row("sinh", np.sinh, 2, 2.2, (-90, 90), (-1.1, 1.1)),
    _row("cosh", np.cosh, 2, 2.2, (-90, 90), (-1.1, 1.1)),
    _row("asinh", np.arcsinh, 2.5, 2.2, (-10, 10), (-1e10, 1e10)),
    _row("acosh", np.arccosh, 3, 2.5, (1, 10), (1, 1e10), (1, 1.01)),
    _row("atanh", np.arctanh, 2.5, 2.2, (-1, 1), (-0.01, 0.01)),
    _row("cbrt", np.cbrt, 0.51, 4, (-10, 10)),
    _row("sqrt", np.sqrt, 0.5, 0.5, (0, 10)),
    _row("rsqrt", _rsqrt, 1.5, 1.5, (0, 10)),
    _row("atan2", np.arctan2, 2.5, 1, (-3, 3), arity=2),
    _row("power", np.power, 0.51, 1, (-3, 3), (0.9, 1.1), arity=2),
)
"""Bounds of f32 are of hloc's own functions, those of f64 of the C library (glibc) and ours."""

# ---------------------------------------------------------------- values


def all_values(dtype: DType) -> Array:
    """Return every value of a 16-bit type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def dense(function: Function, dtype: DType, count: int, seed: int = 0) -> Array:
    """Return samples of f32 or f64: all exponents, every span evenly, special values."""
    random = np.random.default_rng(seed)
    unsigned = np.uint32 if dtype is F32 else np.uint64
    high = np.iinfo(unsigned).max
    parts = [random.integers(0, high, count, unsigned, endpoint=True).view(dtype.numpy)]
    for low, upper in function.spans:
        parts.append(random.uniform(low, upper, count).astype(dtype.numpy))
    info = np.finfo(dtype.numpy)
    special = [0.0, 1.0, 0.5, 2.0, np.pi, np.pi / 2, info.tiny, info.smallest_subnormal, info.max]
    special += [np.inf, np.nan, 0.625, 104.0, 88.72284, 709.78271]
    parts.append(np.array([*special, *(-v for v in special)]).astype(dtype.numpy))
    return np.concatenate(parts)


def samples(function: Function, dtype: DType, count: int) -> list[Array]:
    """Return one array per operand."""
    x = dense(function, dtype, count) if dtype in (F32, F64) else all_values(dtype)
    if function.arity == 1:
        return [x]
    random = np.random.default_rng(1)
    y = dense(function, dtype, count, 2)[: len(x)] if dtype in (F32, F64) else random.permutation(x)
    # Signs of zero and infinities of both operands meet in pairs of special values.
    return [x, random.permutation(y)]


# ---------------------------------------------------------------- errors


def module_text(function: Function, dtype: DType, size: int) -> str:
    """Return a module that applies the function to arrays of `size`."""
    shape = f"{dtype}[{size}]"
    names = [f"p{i}" for i in range(function.arity)]
    lines = [f"  {name} = {shape} parameter({i})" for i, name in enumerate(names)]
    root = f"  ROOT r = {shape} {function.opcode}({', '.join(names)})"
    return "\n".join(["HloModule accuracy", "ENTRY e {", *lines, root, "}"])


@dataclass(frozen=True)
class Worst:
    """The largest error in ulp and where it is; infinite where only one side is a number."""

    ulp: float
    at: tuple[float, ...]


def errors_in_ulp(got: Array, exact: Array, dtype: DType) -> Array:
    """Return errors in units of the last place of `dtype` at the exact value.

    Overflow counts from the largest finite value on, as if the exponents went on; NaN must meet
    NaN, an infinity the same one.
    """
    with np.errstate(all="ignore"):
        want = exact.astype(np.longdouble if dtype is F64 else np.float64)
        value = got.astype(want.dtype)
        smallest = 2 - (1 << (dtype.exponent_bits - 1))
        largest = (1 << (dtype.exponent_bits - 1)) - 1
        exponent = np.clip(np.frexp(want)[1] - 1, smallest, largest)
        unit = np.ldexp(np.ones_like(want), exponent - dtype.mantissa_bits)
        end = np.ldexp(np.ones_like(want), largest + 1)
        beyond = np.isinf(value) & (np.abs(want) >= end) & (value == np.copysign(np.inf, want))
        want = np.where(beyond, value, want)
        value = np.where(np.isinf(value) & np.isfinite(want), np.copysign(end, value), value)
        error = np.abs(value - want) / unit
        error = np.where((value == want) | (np.isnan(value) & np.isnan(want)), 0, error)
        return np.asarray(np.where(np.isnan(error), np.inf, error), np.float64)


def exact_values(function: Function, dtype: DType, arrays: list[Array]) -> Array:
    """Return the reference at `arrays`, with more digits than `dtype` has."""
    wide = np.longdouble if dtype is F64 else np.float64
    with np.errstate(all="ignore"):
        return function.reference(*(x.astype(wide) for x in arrays))


def worst_error(function: Function, dtype: DType, got: Array, arrays: list[Array]) -> Worst:
    """Return the largest error of `got` at `arrays`."""
    errors = errors_in_ulp(got, exact_values(function, dtype, arrays), dtype)
    place = int(np.argmax(errors))
    return Worst(float(errors[place]), tuple(float(x[place]) for x in arrays))


def run_hloc(function: Function, dtype: DType, arrays: list[Array], opt_level: int = 2) -> Array:
    """Return what machine code gives."""
    size = min(CHUNK, len(arrays[0]))
    executable = hloc.compile(module_text(function, dtype, size), opt_level=opt_level)
    results = [np.asarray(executable(*part)[0]) for part in _chunks(arrays, size)]
    return np.concatenate(results)[: len(arrays[0])]


def _chunks(arrays: list[Array], size: int) -> Iterator[list[Array]]:
    for start in range(0, len(arrays[0]), size):
        parts = [x[start : start + size] for x in arrays]
        missing = size - len(parts[0])
        yield [np.concatenate([x, np.ones(missing, x.dtype)]) if missing else x for x in parts]


# ---------------------------------------------------------------- XLA


XLA_NAMES = {
    "exponential": "exp", "exponential-minus-one": "expm1", "log-plus-one": "log1p", "sine": "sin",
    "cosine": "cos", "power": "pow",
}  # fmt: skip


def run_xla(function: Function, dtype: DType, arrays: list[Array]) -> Array | None:
    """Return what XLA:CPU gives, None without jax."""
    try:
        import jax
        from jax import lax
    except ImportError:
        return None
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    apply = jax.jit(getattr(lax, XLA_NAMES.get(function.opcode, function.opcode)))
    return np.asarray(apply(*arrays)).astype(dtype.numpy)


# ---------------------------------------------------------------- the page

TITLE = """# Accuracy of the elementary functions

Largest errors of machine code in units in the last place (ulp); 0.5 is correct rounding, which the
16-bit types have up to values that lie next to a tie. Made by `make accuracy`: do not edit.

All 65,536 values of bf16 and f16; {f32:,} and more samples of f32 and {f64:,} of f64: random bits
(so every exponent, subnormals, huge arguments, NaN and infinities) and even samples of the
intervals where the function bends. The reference is NumPy's f64, for f64 the machine's long double.
`inf` means that one side is a number and the other NaN or infinity. The bounds are those that
`tests/unit/test_accuracy.py` holds.

XLA keeps to 20 ulp for most functions by its own tests; it flushes subnormals to zero, which is
counted as no error here ({note}).
"""


def _cell(worst: Worst | None) -> str:
    return "-" if worst is None else f"{worst.ulp:.2f}"


def _without_flush(arrays: list[Array], got: Array, exact: Array, dtype: DType) -> Array:
    """Return errors, with subnormal arguments and results left out, which XLA flushes."""
    tiny = float(np.finfo(dtype.numpy).tiny)
    errors = errors_in_ulp(got, exact, dtype)
    for x in [exact, *arrays]:
        with np.errstate(all="ignore"):
            size = np.abs(x.astype(np.float64))
        errors = np.where((size < tiny * 1.001) & (size > 0), 0, errors)
    return errors


def table(count32: int, count64: int) -> str:
    """Return the page."""
    lines = [
        "| opcode | f32 bound | f32 | XLA f32 | f64 | XLA f64 | bf16 | f16 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for function in FUNCTIONS:
        cells: dict[str, str] = {}
        for dtype, count in ((F32, count32), (F64, count64), (BF16, 0), (F16, 0)):
            arrays = samples(function, dtype, count)
            worst = worst_error(function, dtype, run_hloc(function, dtype, arrays), arrays)
            cells[dtype.name] = f"{worst.ulp:.2f}"
            theirs = run_xla(function, dtype, arrays) if dtype in (F32, F64) else None
            if theirs is not None:
                exact = exact_values(function, dtype, arrays)
                errors = _without_flush(arrays, theirs, exact, dtype)
                cells["xla " + dtype.name] = f"{errors.max():.2f}"
        bound = function.bounds["f32"]
        names = ("f32", "xla f32", "f64", "xla f64", "bf16", "f16")
        values = " | ".join(cells.get(name, "-") for name in names)
        lines.append(f"| {function.opcode} | {bound:g} | {values} |")
    return "\n".join(lines)


def page(count32: int, count64: int) -> str:
    """Return the text of docs/accuracy.md."""
    note = "errors at subnormal arguments and results are left out of its columns"
    return TITLE.format(f32=count32, f64=count64, note=note) + "\n" + table(count32, count64) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite docs/accuracy.md")
    parser.add_argument("--samples", type=int, default=1 << 20, help="of f32; f64 has a quarter")
    arguments = parser.parse_args()
    text = page(arguments.samples, arguments.samples // 4)
    if arguments.write:
        PAGE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
