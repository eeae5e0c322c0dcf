"""LAPACK's custom calls become calls of hloc's own algorithms, which need no host function.

The targets and views used here are those of `codegen/kernels/linalg/calls.py`. Calls with other
layouts, and targets for which the user has registered a function, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

from hloc.analysis.call_graph import control_flow_computations
from hloc.codegen.kernels.linalg.calls import (
    AS_STORED,
    TRANSPOSED,
    linalg_call,
    solution,
    target_name,
)
from hloc.codegen.kernels.linalg.lapack import lapack_target
from hloc.codegen.kernels.linalg.lapack_routines import ROUTINES
from hloc.codegen.lower.linear_algebra_layouts import write_rows_for_readers
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.registered_targets import registered_targets
from hloc.ops.custom_calls.lapack import lapack_attributes
from hloc.scipy_routines import has_lapack
from hloc.shapes import ArrayShape

_TARGET = re.compile(r"lapack_[sdcz]([a-z0-9]+)_ffi")

_NAMES_OF_XLA = {"Qr": "geqrf", "ProductOfElementaryHouseholderReflectors": "orgqr"}
"""Targets that XLA expands itself, with operands and results of LAPACK's routines."""

_LONGEST_COLUMN_BYTES = 128
"""Up to this size, rotations in lanes are faster than LAPACK on each matrix: 32 rows of f32."""

_FEWEST = 4
"""Smallest batch for lanes with 16 rows; twice as many matrices with twice as many rows."""

_Choice: TypeAlias = tuple[str, tuple[str, ...]]
"""An algorithm, and views of operands and results."""


def own_linear_algebra(module: Module, *, with_lapack: bool = False) -> None:
    """Retarget custom calls to hloc's own routines where possible; changes `module` in place.

    Args:
        module: calls in its entry and control flow are considered.
        with_lapack: machine code may call SciPy's LAPACK, if it is installed.
    """
    registered = registered_targets()
    with module.log.acting("linear-algebra"):
        for computation in control_flow_computations(module):
            for inst in computation.instructions:
                if not inst.is_a("custom-call"):
                    continue
                if inst.attributes.custom_call_target in registered:
                    continue
                target = _target(inst, with_lapack=with_lapack)
                if target:
                    attributes = replace(inst.attributes, custom_call_target=target)
                    computation.set_attributes(inst, attributes)
            write_rows_for_readers(computation)


def _target(inst: Instruction, *, with_lapack: bool) -> str:
    """Return the new target of a custom call, "" if it stays as it is."""
    target = inst.attributes.custom_call_target
    match = _TARGET.fullmatch(target)
    name = match[1] if match else _NAMES_OF_XLA.get(target)
    if name is None:
        return ""
    attributes = lapack_attributes(inst)
    if with_lapack and name in ROUTINES and has_lapack():
        options = [str(attributes.get(*option)) for option in ROUTINES[name].options]
        if name not in _CHOICES or not _is_small_batch(inst):
            return lapack_target(inst, name, options)
    if name in ("gesdd", "gesvd"):
        attributes["is_tall"] = _is_tall(inst)
    if name in _CHOICES:
        choice = _CHOICES[name](attributes)
        return "" if linalg_call(inst, *choice) is None else target_name(*choice)
    return ""


def _is_small_batch(inst: Instruction) -> bool:
    """True for a batch of small matrices; vectors may differ from LAPACK's in sign."""
    shape = inst.operands[0].shape if inst.operands else None
    if not isinstance(shape, ArrayShape) or shape.rank < 3:
        return False
    size = max(shape.dims[-2:])
    if size * shape.dtype.storage_bytes > _LONGEST_COLUMN_BYTES:
        return False
    return prod(shape.dims[:-2]) >= max(_FEWEST, size * _FEWEST // 16)


def _is_tall(inst: Instruction) -> bool:
    """True unless the matrices of the first operand have more columns than rows."""
    shape = inst.operands[0].shape if inst.operands else None
    return not isinstance(shape, ArrayShape) or shape.rank < 2 or shape.dims[-2] >= shape.dims[-1]


def _cholesky(a: dict[str, Any]) -> _Choice:
    view = AS_STORED if a.get("uplo", "L") == "L" else TRANSPOSED
    return "cholesky", (view, view, AS_STORED)


def _solve(a: dict[str, Any]) -> _Choice:
    transposed = a.get("trans_x", "N")
    return solution(
        left=a.get("side", "L") == "L",
        lower=a.get("uplo", "L") == "L",
        transposed=transposed != "N",
        conjugated=transposed == "C",
        unit=a.get("diag") == "U",
    )


def _multiply(a: dict[str, Any]) -> _Choice:
    """Choose the routine that multiplies by Q: from the right, by its transpose if row-major."""
    is_left = bool(a["left"]) if "left" in a else a.get("side", "L") == "L"
    is_plain = not a["transpose"] if "transpose" in a else a.get("trans", "N") == "N"
    name = {
        (True, True): "apply-q",
        (True, False): "apply-q-adjoint",
        (False, True): "apply-q-transpose",
        (False, False): "apply-q-conjugate",
    }[is_left, is_plain]
    view = AS_STORED if is_left else TRANSPOSED
    return name, (AS_STORED, AS_STORED, view, view)


def _eigen(a: dict[str, Any]) -> _Choice:
    return f"eigen-{'lower' if a.get('uplo', 'L') == 'L' else 'upper'}", (AS_STORED,) * 4


def _singular(a: dict[str, Any]) -> _Choice:
    """Choose the routine of an SVD; a wide matrix is transposed, which swaps U and V."""
    n, t = AS_STORED, TRANSPOSED
    name = "values" if a.get("mode") == "N" else "singular"
    if a["is_tall"]:
        return f"{name}-tall", (n, n, n, n, t, n)
    return f"{name}-wide", (t, t, n, n, t, n)


_CHOICES: dict[str, Callable[[dict[str, Any]], _Choice]] = {
    "potrf": _cholesky,
    "getrf": lambda a: ("lu", (AS_STORED,) * 4),
    "trsm": _solve,
    "gtsv": lambda a: ("tridiagonal", (AS_STORED,) * 9),
    "geqrf": lambda a: ("qr", (AS_STORED,) * 3),
    "orgqr": lambda a: ("q", (AS_STORED,) * 3),
    "ungqr": lambda a: ("q", (AS_STORED,) * 3),
    "ormqr": _multiply,
    "unmqr": _multiply,
    "syevd": _eigen,
    "heevd": _eigen,
    "gesdd": _singular,
    "gesvd": _singular,
}
