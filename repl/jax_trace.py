"""A module from a Python function, traced by JAX in a process of its own."""

from __future__ import annotations

import re
import subprocess

from hloc.errors import HloError
from hloc.jax.xla_program import is_installed
from hloc.python_process import python_command, python_environment

_SECONDS = 120
_SHAPE = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "pred": "bool_",
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

_PROGRAM = """
import sys
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
function = eval(sys.argv[1])
shapes = [jax.ShapeDtypeStruct(dims, dtype) for dims, dtype in eval(sys.argv[2])]
sys.stdout.write(jax.jit(function).lower(*shapes).as_text("hlo"))
"""


def trace_text(text: str) -> str:
    """Return the HLO text of `lambda x: jnp.tanh(x) ; f32[4]`, with shapes separated by commas.

    The expression is the user's Python, and is executed.

    Raises:
        HloError: jax is not installed, or rejects the function.
    """
    if not is_installed():
        raise HloError("command jax needs the package jax", notes=("pip install 'hloc[jax]'",))
    function, _, shapes = text.rpartition(";")
    if not function.strip():
        raise HloError("expected shapes", notes=("use: jax lambda x: x * 2 ; f32[4]",))
    try:
        done = subprocess.run(
            [*python_command("-c", _PROGRAM), function.strip(), _structs(shapes)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            env=python_environment(JAX_TRACEBACK_FILTERING="off"),
        )
    except subprocess.TimeoutExpired:
        raise HloError(f"jax took more than {_SECONDS} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise HloError(f"jax rejected this: {lines[-1] if lines else 'no reason given'}")
    return done.stdout


def _structs(text: str) -> str:
    """Return Python text for the shapes in `f32[4], s32[]`."""
    found = []
    for dtype, dims in _SHAPE.findall(text):
        if dtype not in _DTYPES:
            raise HloError(f"jax has no type {dtype!r}", notes=(f"types: {', '.join(_DTYPES)}",))
        found.append(f"(({dims}{',' if dims else ''}), jnp.{_DTYPES[dtype]})")
    if _SHAPE.sub("", text).strip(", "):
        raise HloError(f"cannot read the shapes {text.strip()!r}", notes=("as in: f32[4], s32[]",))
    return f"[{', '.join(found)}]"
