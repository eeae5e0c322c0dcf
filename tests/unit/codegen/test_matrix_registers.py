"""Products in matrix registers (AMX): edges of tiles and blocks, types, and leave to use them."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.llvm import matrix_registers, target
from hloc.codegen.llvm.object_file import parse_module
from hloc.codegen.llvm.target import Target, host_target, target_for
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    run_instruction,
)
from tests.unit.codegen.test_products import dims, narrower, product

needs_amx = pytest.mark.skipif(
    not (host_target().has("amx-bf16") and host_target().has("amx-int8")),
    reason="the processor has no matrix registers, or the system gives no leave",
)

SIZES = [
    (16, 48, 32), (12, 12, 230), (33, 65, 70), (64, 96, 64), (70, 31, 129), (49, 16, 65),
    (32, 32, 1100), (17, 340, 8),
]  # fmt: skip
"""Rows, columns and k, around 16, 32, 48 and blocks of k of 32, 64, 256 and 512."""


def routine_text(text: str, machine: Target) -> str:
    return "".join(r.text for r in emit(parse_text(text).entry.root, target=machine).routines)


@needs_amx
@pytest.mark.parametrize(("rows", "columns", "depth"), SIZES)
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize("result", ["f32", "bf16"])
def test_bf16(rows: int, columns: int, depth: int, left: int, right: int, result: str) -> None:
    """Sums are in f32: an f32 result is that of the exact products."""
    lhs = "bf16" + dims(rows, depth, 1 - left)
    rhs = "bf16" + dims(depth, columns, right)
    text = product(lhs, rhs, f"{result}[{rows},{columns}]", left, right)
    row = "bf16 exact products" if result == "f32" else "bf16 result"
    check_root(text, random_arrays(text), **bounds(row))
    if min(rows, columns) > 16:
        assert "tdpbf16ps" in routine_text(text, host_target())


@needs_amx
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(40, 700, 600), (300, 100, 600), (70, 130, 1000), (48, 33, 3000)]
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_sums_of_blocks_of_k_are_rounded_once(
    rows: int, columns: int, depth: int, pieces: int
) -> None:
    """Sums of all rows, or of a panel if there are many, wait in scratch memory."""
    lhs, rhs = f"bf16[{rows},{depth}]", f"bf16[{depth},{columns}]"
    found = {}
    for result in ("f32", "bf16"):
        text = product(lhs, rhs, f"{result}[{rows},{columns}]", 1, 0)
        root = parse_text(text).entry.root
        (found[result],) = run_instruction(root, random_arrays(text), pieces=pieces)
    assert (found["bf16"] == found["f32"].astype(found["bf16"].dtype)).all()


@needs_amx
@pytest.mark.parametrize("types", [("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(33, 65, 70), (16, 48, 257), (5, 40, 900)])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("right", [0, 1])
def test_bytes_are_exact(
    types: tuple[str, str], rows: int, columns: int, depth: int, left: int, right: int
) -> None:
    lhs = types[0] + dims(rows, depth, 1 - left)
    rhs = types[1] + dims(depth, columns, right)
    text = product(lhs, rhs, f"s32[{rows},{columns}]", left, right)
    rng = np.random.default_rng(1)
    arrays = []
    for parameter in parse_text(text).entry.parameters:
        dtype = parameter.array.dtype.numpy
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        arrays.append(rng.integers(low, high, parameter.array.dims, dtype, endpoint=True))
    check_root(text, arrays)


@needs_amx
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_several_contracted_dimensions_and_batches(pieces: int) -> None:
    """Steps of k lie in pieces that follow each other in one operand and not in the other."""
    root = (
        "f32[3,40,70] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2,3}, rhs_contracting_dims={2,1}"
    )
    text = module_text(["bf16[3,40,5,33]", "bf16[3,33,5,70]"], root)
    check_root(text, random_arrays(text), **bounds("bf16 exact products"), pieces=pieces)


@needs_amx
def test_convolution() -> None:
    labels = "dim_labels=b01f_01io->b01f"
    root = f"bf16[2,9,9,24] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, {labels}"
    text = module_text(["bf16[2,9,9,40]", "bf16[3,3,40,24]"], root)
    check_root(text, random_arrays(text), **bounds("bf16 convolution"))
    assert "tdpbf16ps" in routine_text(text, host_target())


@needs_amx
def test_infinities_stay_in_their_rows_and_columns() -> None:
    """What fills a tile up must not reach the result, neither beside it nor after the last k."""
    text = product("bf16[35,40]", "bf16[40,70]", "f32[35,70]", 1, 0)
    root = parse_text(text).entry.root
    dtype = root.operands[0].array.dtype.numpy
    lhs, rhs = np.ones((35, 40), dtype), np.ones((40, 70), dtype)
    lhs[34, 39], rhs[39, 69] = np.inf, np.nan
    (found,) = run_instruction(root, [lhs, rhs])
    assert np.isnan(found[:, 69]).all()
    assert np.isposinf(found[34, :69]).all()
    assert (found[:34, :69] == 40).all()


def test_other_machines_do_without() -> None:
    bf16 = product("bf16[64,64]", "bf16[64,64]", "f32[64,64]", 1, 0)
    bytes_ = product("s8[64,64]", "s8[64,64]", "s32[64,64]", 1, 0)
    for machine in (narrower(256), target_for(cpu="x86-64-v4"), target_for(cpu="znver4")):
        for text in (bf16, bytes_):
            assert not matrix_registers.uses_matrix_registers(routine_text(text, machine))


def test_sapphire_rapids_has_them() -> None:
    """An object for it uses them, whatever machine makes it."""
    text = product("bf16[64,64]", "bf16[64,64]", "f32[64,64]", 1, 0)
    machine = target_for("x86_64", "sapphirerapids")
    assert machine.has("amx-bf16")
    assert matrix_registers.uses_matrix_registers(routine_text(text, machine))


def test_no_leave_means_no_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "allow_matrix_registers", lambda: False)
    without = host_target.__wrapped__()
    assert not any(without.has(f"amx-{name}") for name in ("tile", "bf16", "int8"))


def test_objects_ask_when_they_are_loaded() -> None:
    module = parse_module(matrix_registers.permission_text())
    assert "llvm.global_ctors" in str(module)
