"""Every operation of LLVM IR in the forms that the NVPTX backend chooses, against plain answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.ptx.ptx_running import ptx_of, run
from tests.unit.ptx.test_integer import clamp, signed, truncated

COUNT = 64
CPUS = ("sm_75", "sm_90", "sm_100")


def kernel(type_name: str, operations: list[str], declarations: list[str]) -> str:
    """Store the result of operation j of thread t at out[64 * j + t]; %x, %y, %z are inputs."""
    body = ""
    for name in "xyz":
        body += f"""
  %p{name} = getelementptr {type_name}, ptr addrspace(1) %in{name}, i32 %t
  %{name} = load {type_name}, ptr addrspace(1) %p{name}"""
    for j, operation in enumerate(operations):
        body += f"""
  %r{j} = {operation}
  %i{j} = add i32 %t, {COUNT * j}
  %o{j} = getelementptr {type_name}, ptr addrspace(1) %out, i32 %i{j}
  store {type_name} %r{j}, ptr addrspace(1) %o{j}"""
    parameters = ", ".join(f"ptr addrspace(1) noalias %{n}" for n in ("out", "inx", "iny", "inz"))
    lines = "\n".join(sorted(set(declarations)))
    return f"""define ptx_kernel void @k({parameters}) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
{body}
  ret void
}}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
{lines}
"""


Integers = Callable[[int, int, int, int], int]
PLAIN: dict[str, Integers] = {  # bits, x, y, z as patterns; y is odd, so never zero
    "add": lambda n, x, y, z: x + y,
    "sub": lambda n, x, y, z: x - y,
    "mul": lambda n, x, y, z: x * y,
    "udiv": lambda n, x, y, z: x // y,
    "urem": lambda n, x, y, z: x % y,
    "sdiv": lambda n, x, y, z: truncated(signed(x, n), signed(y, n)),
    "srem": lambda n, x, y, z: x - truncated(signed(x, n), signed(y, n)) * signed(y, n),
    "and": lambda n, x, y, z: x & y,
    "or": lambda n, x, y, z: x | y,
    "xor": lambda n, x, y, z: x ^ y,
}
BINARY: dict[str, Integers] = {
    "smin": lambda n, x, y, z: min(signed(x, n), signed(y, n)),
    "umax": lambda n, x, y, z: max(x, y),
    "sadd.sat": lambda n, x, y, z: clamp(signed(x, n) + signed(y, n), f"s{n}"),
    "usub.sat": lambda n, x, y, z: max(x - y, 0),
}
UNARY: dict[str, Integers] = {
    "ctpop": lambda n, x, y, z: x.bit_count(),
    "bitreverse": lambda n, x, y, z: int(f"{x:0{n}b}"[::-1], 2),
}
FLAGGED: dict[str, Integers] = {
    "ctlz": lambda n, x, y, z: n - x.bit_length(),
    "cttz": lambda n, x, y, z: (x & -x).bit_length() - 1 if x else n,
    "abs": lambda n, x, y, z: abs(signed(x, n)),
}
FUNNEL: dict[str, Integers] = {
    "fshl": lambda n, x, y, z: (x << n | y) << z % n >> n,
    "fshr": lambda n, x, y, z: (x << n | y) >> z % n,
}


def integer_kernel(bits: int) -> tuple[str, list[Integers]]:
    t = f"i{bits}"
    operations = [f"{name} {t} %x, %y" for name in PLAIN]
    declarations, functions = [], list(PLAIN.values())
    for table, arguments, formals in (
        (BINARY, f"{t} %x, {t} %y", f"{t}, {t}"),
        (UNARY, f"{t} %x", t),
        (FLAGGED, f"{t} %x, i1 false", f"{t}, i1"),
        (FUNNEL, f"{t} %x, {t} %y, {t} %z", f"{t}, {t}, {t}"),
    ):
        for name, function in table.items():
            operations.append(f"call {t} @llvm.{name}.{t}({arguments})")
            declarations.append(f"declare {t} @llvm.{name}.{t}({formals})")
            functions.append(function)
    return kernel(t, operations, declarations), functions


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("cpu", CPUS)
def test_integers(cpu: str, bits: int) -> None:
    text, functions = integer_kernel(bits)
    dtype = np.dtype(f"u{bits // 8}")
    rng = np.random.default_rng(bits)
    x, y, z = rng.integers(0, 1 << bits, (3, COUNT), dtype=dtype)
    x[:4] = 0, 1, 1 << bits - 1, (1 << bits) - 1
    y |= dtype.type(1)
    out = np.zeros(COUNT * len(functions), dtype)
    (got, *_), _ = run(ptx_of(text, cpu), "k", [out, x, y, z], grid=(1, 1, 1), block=(COUNT, 1, 1))
    for function, found in zip(functions, got.reshape(-1, COUNT), strict=True):
        values = zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
        expected = [function(bits, *triple) & (1 << bits) - 1 for triple in values]
        np.testing.assert_array_equal(found, np.array(expected, dtype))


FLOAT_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
}
FLOAT_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "minnum": np.fmin,
    "maxnum": np.fmax,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "copysign": np.copysign,
}
FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "roundeven": np.rint,
    "fabs": np.abs,
}


@pytest.mark.parametrize("name", ["float", "double", "half"])
@pytest.mark.parametrize("cpu", CPUS)
def test_floats(cpu: str, name: str) -> None:
    dtype, short = {"float": ("f4", "f32"), "double": ("f8", "f64"), "half": ("f2", "f16")}[name]
    operations = [f"{o} {name} %x, %y" for o in FLOAT_BINARY]
    declarations = []
    for o in FLOAT_CALLS:
        operations.append(f"call {name} @llvm.{o}.{short}({name} %x, {name} %y)")
        declarations.append(f"declare {name} @llvm.{o}.{short}({name}, {name})")
    for o in FLOAT_UNARY:
        operations.append(f"call {name} @llvm.{o}.{short}({name} %x)")
        declarations.append(f"declare {name} @llvm.{o}.{short}({name})")
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal((3, COUNT)) * 8).astype(dtype)
    x[:8] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 2.5, -3.5], dtype)
    y[4:6] = np.array([2, np.nan], dtype)
    out = np.zeros(COUNT * len(operations), dtype)
    text = ptx_of(kernel(name, operations, declarations), cpu)
    (got, *_), _ = run(text, "k", [out, x, y, z], grid=(1, 1, 1), block=(COUNT, 1, 1))
    with np.errstate(all="ignore"):
        expected = [function(x, y) for function in FLOAT_BINARY.values()]
        expected += [function(x, y) for function in FLOAT_CALLS.values()]
        expected += [function(x) for function in FLOAT_UNARY.values()]
    for operation, found, wanted in zip(operations, got.reshape(-1, COUNT), expected, strict=True):
        np.testing.assert_array_equal(found, wanted.astype(dtype), err_msg=operation)
