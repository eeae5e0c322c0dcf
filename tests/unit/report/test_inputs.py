"""Random inputs suit the module and are the same every time; files are checked before use."""

import contextlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.dtypes import DTYPES
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.report.index_ranges import index_limits
from hloc.report.inputs import (
    load_arrays,
    parameter_leaves,
    random_inputs,
    save_arrays,
    special_inputs,
)
from hloc.report.run_inputs import load_inputs
from hloc.shapes import ArrayShape, array_shape


def module_of(*lines: str) -> Module:
    return hloc.parse("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}\n")


ALL_TYPES = module_of(
    *(
        f"p{i} = {name}[3,5] parameter({i})"
        for i, name in enumerate(n for n, d in DTYPES.items() if not d.is_special)
    ),
    "ROOT r = f32[] constant(0)",
)


def test_random_inputs_have_the_types_and_sizes_of_the_parameters() -> None:
    arrays = random_inputs(ALL_TYPES, 0)
    for array, shape in zip(arrays, parameter_leaves(ALL_TYPES), strict=True):
        assert array.dtype == shape.dtype.numpy
        assert array.shape == shape.dims


def test_the_seed_decides() -> None:
    first, again, other = (random_inputs(ALL_TYPES, seed) for seed in (1, 1, 2))
    assert [a.tobytes() for a in first] == [a.tobytes() for a in again]
    assert [a.tobytes() for a in first] != [a.tobytes() for a in other]


def test_arrays_do_not_repeat_each_other() -> None:
    module = module_of(
        "a = f32[8] parameter(0)", "b = f32[8] parameter(1)", "ROOT r = f32[8] add(a, b)"
    )
    a, b = random_inputs(module, 0)
    assert not np.array_equal(a, b)


def test_inputs_beyond_memory_are_refused_before_they_are_made() -> None:
    module = module_of("p = f32[1000000,1000000] parameter(0)", "ROOT r = f32[] constant(0)")
    with pytest.raises(hloc.HloError, match=r"inputs take 3\.6 TiB, more than half"):
        random_inputs(module, 0)


def test_matrices_are_scaled_so_that_deep_models_stay_in_range() -> None:
    module = module_of("p = f32[1024,64] parameter(0)", "ROOT r = f32[] constant(0)")
    (weights,) = random_inputs(module, 0)
    assert weights.std() == pytest.approx(1 / 32, rel=0.05)


def test_tuples_are_flattened_and_tokens_left_out() -> None:
    module = module_of(
        "p = (f32[2], token[], (s32[3], pred[])) parameter(0)", "ROOT r = f32[] constant(0)"
    )
    assert [a.shape for a in random_inputs(module, 0)] == [(2,), (3,), ()]


GATHER = """
HloModule m
ENTRY e {
  table = f32[7,4] parameter(0)
  ids = s32[50] parameter(1)
  zero = s32[] constant(0)
  zeros = s32[50] broadcast(zero), dimensions={}
  size = s32[] constant(7)
  sizes = s32[50] broadcast(size), dimensions={}
  negative = pred[50] compare(ids, zeros), direction=LT
  wrapped = s32[50] add(ids, sizes)
  chosen = s32[50] select(negative, wrapped, ids)
  column = s32[50,1] reshape(chosen)
  ROOT rows = f32[50,4] gather(table, column), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
}
"""


def test_indices_of_a_gather_are_in_range_and_not_all_alike() -> None:
    module = hloc.parse(GATHER)
    assert index_limits(module) == {1: 6}
    ids = random_inputs(module, 0)[1]
    assert ids.min() >= 0
    assert ids.max() <= 6
    assert len(set(ids.tolist())) > 3


def test_indices_are_found_through_loops_and_calls() -> None:
    module = hloc.parse(
        """
HloModule m
body {
  s = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[100] get-tuple-element(s), index=1
  one = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
  y = f32[100] dynamic-update-slice(x, one, i)
  ROOT t = (s32[], f32[100]) tuple(i, y)
}
condition {
  s = (s32[], f32[100]) parameter(0)
  ROOT r = pred[] constant(false)
}
ENTRY e {
  i = s32[] parameter(0)
  x = f32[100] parameter(1)
  n = s32[] parameter(2)
  s = (s32[], f32[100]) tuple(i, x)
  w = (s32[], f32[100]) while(s), condition=condition, body=body
  m = s32[] multiply(n, n)
  ROOT r = (f32[100], s32[]) tuple(x, m)
}
"""
    )
    assert index_limits(module) == {0: 99}


def test_the_smallest_of_several_limits_counts() -> None:
    module = module_of(
        "i = s32[] parameter(0)",
        "x = f32[10] parameter(1)",
        "y = f32[4] parameter(2)",
        "a = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}",
        "b = f32[2] dynamic-slice(y, i), dynamic_slice_sizes={2}",
        "ROOT r = f32[2] add(a, b)",
    )
    assert index_limits(module) == {0: 2}


def test_indices_of_a_scatter_leave_room_for_the_window() -> None:
    module = hloc.parse(
        """
HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[10,6] parameter(0)
  i = s32[3,2] parameter(1)
  u = f32[3,4] parameter(2)
  ROOT r = f32[10,6] scatter(x, i, u), to_apply=add, update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1
}
"""
    )
    assert index_limits(module) == {1: 2}


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if not d.is_special])
@pytest.mark.parametrize("dims", [(2, 2), ()])
def test_every_type_survives_a_file(name: str, dims: tuple[int, ...], tmp_path: Path) -> None:
    path = str(tmp_path / "x.npz")
    dtype = DTYPES[name]
    values = np.ones(dims, np.float32).astype(dtype.numpy)
    shape = ArrayShape(dtype, dims)
    save_arrays(path, "out", [values], [shape])
    with np.load(path, allow_pickle=False) as stored:
        assert stored["out0"].dtype.isbuiltin == 1, "NumPy alone must be able to read it"
    (found,) = load_arrays(path, "out", [shape])
    assert found.dtype == dtype.numpy
    assert found.shape == dims
    assert found.tobytes() == values.tobytes()


def test_narrow_floats_are_stored_as_their_bits(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npz")
    save_arrays(path, "arg", [np.array([1.0], ml_dtypes.bfloat16)], [array_shape("bf16", 1)])
    with np.load(path) as stored:
        assert stored["arg0"].dtype == np.uint16
        assert stored["arg0"][0] == 0x3F80


F32_4 = array_shape("f32", 4)
BAD_FILES = {
    "missing name": ({"x": np.zeros(4, np.float32)}, r"has no array 'arg0'.*it has x"),
    "other size": (
        {"arg0": np.zeros(3, np.float32)},
        r"dimensions \[3\], expected f32\[4",
    ),
    "other type": ({"arg0": np.zeros(4, np.float64)}, r"arg0 holds float64, expected f32\[4\]"),
    "objects": ({"arg0": np.array([None] * 4)}, "cannot read"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_arrays_that_do_not_fit_are_refused(case: str, tmp_path: Path) -> None:
    arrays, message = BAD_FILES[case]
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(hloc.HloError, match=message):
        load_arrays(str(path), "arg", [F32_4])


def test_files_that_are_no_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.raises(hloc.HloError, match=r"cannot read .*no such file"):
        load_arrays(str(path), "arg", [F32_4])
    for content in (b"", b"PK\x03\x04 no zip", b"\x93NUMPY\x01\x00nonsense", b"HloModule m"):
        path.write_bytes(content)
        with pytest.raises(hloc.HloError, match="is not a NumPy archive; expected a file from"):
            load_arrays(str(path), "arg", [F32_4])
    np.save(tmp_path / "one.npy", np.zeros(4, np.float32))
    with pytest.raises(hloc.HloError, match="is not a NumPy archive"):
        load_arrays(str(tmp_path / "one.npy"), "arg", [F32_4])


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    """Whatever bytes are wrong, there is a message and no traceback."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, arg0=np.arange(4, dtype=np.float32))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + b"\xff\x7f" + whole[place + 2 :])
        with contextlib.suppress(hloc.HloError):
            load_arrays(str(path), "arg", [F32_4])


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(hloc.HloError, match="cannot write"):
        save_arrays(str(tmp_path / "no" / "x.npz"), "out", [], [])


IMPOSSIBLE = {
    "f32[?]": "a dimension has no bound",
    f"f32[{','.join('1' * 65)}]": "NumPy arrays have at most 64",
}


@pytest.mark.parametrize("shape", IMPOSSIBLE)
def test_shapes_that_no_array_has_are_refused(shape: str) -> None:
    module = hloc.parse(
        f"HloModule m\nENTRY e {{\n  p = {shape} parameter(0)\n  ROOT n = {shape} negate(p)\n}}\n"
    )
    for make in (random_inputs, special_inputs):
        with pytest.raises(HloError, match=IMPOSSIBLE[shape]):
            make(module, 0)


TWO = module_of(
    "weight = f32[2] parameter(0)",
    "bias = f32[2] parameter(1)",
    "ROOT r = f32[2] add(weight, bias)",
)


@pytest.mark.parametrize("names", [("arg0", "arg1"), ("arr_0", "arr_1"), ("weight", "bias")])
def test_arrays_of_a_file_may_have_three_kinds_of_names(
    names: tuple[str, str], tmp_path: Path
) -> None:
    path = str(tmp_path / "in.npz")
    arrays = [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez(path, **named)
    found = load_inputs(path, TWO)
    assert [array.tolist() for array in found] == [[1, 2], [3, 4]]


def test_names_of_two_kinds_are_not_mixed(tmp_path: Path) -> None:
    path = str(tmp_path / "in.npz")
    np.savez(path, arg0=np.zeros(2, "f4"), arr_1=np.zeros(2, "f4"))
    with pytest.raises(HloError, match="has no array 'arg1'"):
        load_inputs(path, TWO)


def test_a_small_file_does_not_unpack_to_all_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x.npz")
    np.savez_compressed(path, arg0=np.zeros(1 << 24, np.uint8))
    assert (tmp_path / "x.npz").stat().st_size < 1 << 16
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", None)  # nothing is unpacked
    told = r"arg0 unpacks to 16(\.0)? MiB, expected f32\[4\], 16 B"
    with pytest.raises(HloError, match=told):
        load_arrays(path, "arg", [F32_4])
    module = hloc.parse("HloModule m\nENTRY e {\n  ROOT x = f32[4] parameter(0)\n}\n")
    (tmp_path / "m.hlo").write_text(module.to_text())
    assert main(["run", str(tmp_path / "m.hlo"), f"--inputs={path}"]) == 1
    assert main(["run", str(tmp_path / "m.hlo"), f"--input=x=@{path}:arg0"]) == 1
