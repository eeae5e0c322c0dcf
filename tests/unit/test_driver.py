"""The straight way and the Python names of the package: what goes in, comes out, and fails."""

import io
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.input_files import read_bounded
from hloc.limits import limited
from hloc.options import CompileOptions

TEXT = """HloModule doubled
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  s = f32[4] add(x, c)
  d = f32[4] add(x, c)
  ROOT r = f32[4] add(s, d)
}
"""
X = np.array([10, 20, 30, 40], np.float32)
WANT = np.array([22, 44, 66, 88], np.float32)


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_text_and_modules_compile_to_the_same_answer(opt_level: int) -> None:
    for given in (TEXT, hloc.parse(TEXT)):
        (out,) = hloc.compile(given, opt_level=opt_level)(X)
        np.testing.assert_array_equal(out, WANT)


def test_the_evaluator_takes_the_same_arguments() -> None:
    for given in (TEXT, hloc.parse(TEXT)):
        (out,) = hloc.evaluate(given, X)
        np.testing.assert_array_equal(out, WANT)


def test_compiling_does_not_change_the_module() -> None:
    module = hloc.parse(TEXT)
    before = module.to_text("default")
    hloc.compile(module, opt_level=2)
    assert module.to_text("default") == before
    assert not module.log.events


def test_a_module_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    assert hloc.load(str(path)).name == "doubled"
    path.write_text(TEXT.replace("add(s, d)", "add(s, q)"))
    with pytest.raises(hloc.HloError, match=r"m\.hlo:7:"):
        hloc.load(str(path))


@pytest.mark.parametrize("path", ["/no/such/file.hlo", "/", "bad\0name"])
def test_files_that_cannot_be_read_are_user_faults(path: str) -> None:
    with pytest.raises(hloc.HloError, match="cannot read"):
        hloc.load(path)


def test_bytes_are_text_too() -> None:
    assert hloc.parse(TEXT.encode()).name == "doubled"
    with pytest.raises(hloc.HloError):
        hloc.parse(b"\xff\xfe\x00")


def test_options_are_checked() -> None:
    with pytest.raises(hloc.HloError, match="there is no option 'optlevel'; options are opt_level"):
        hloc.compile(TEXT, optlevel=3)
    with pytest.raises(hloc.HloError, match="opt_level is 0, 1, 2 or 3, not 7"):
        hloc.compile(TEXT, opt_level=7)
    with pytest.raises(hloc.HloError, match="there is no target 'abacus'"):
        hloc.compile(TEXT, target="abacus")
    with pytest.raises(hloc.HloError, match="there is no pass 'frobnicate'"):
        hloc.compile(TEXT, passes="frobnicate")
    with pytest.raises(hloc.HloError, match="there is no rule 'x-x'"):
        hloc.compile(TEXT, disabled_rules=("x-x",))


def test_passes_and_disabled_passes_shape_the_pipeline() -> None:
    assert str(driver.pipeline_of(CompileOptions(passes="algsimp,dce"))) == (
        "algebraic-simplifier,dce"
    )
    options = CompileOptions(opt_level=2, disabled_passes=("map-inliner", "algsimp"))
    left = driver.pipeline_of(options)
    assert "map-inliner" not in str(left)
    assert "algebraic-simplifier" not in str(left)
    assert "cse" in str(left)
    assert str(driver.pipeline_of(CompileOptions(opt_level=0))) == ""


def test_elided_constants_are_refused_unless_filled() -> None:
    text = TEXT.replace("{1, 2, 3, 4}", "{...}")
    with pytest.raises(hloc.HloError, match="elides"):
        hloc.compile(text)
    with pytest.raises(hloc.HloError, match="elided"):
        hloc.evaluate(text, X)
    (out,) = hloc.compile(text, fill_constants="zeros")(X)
    (want,) = driver.evaluate(text, X, fill_constants="zeros")
    np.testing.assert_array_equal(out, 2 * X)
    np.testing.assert_array_equal(want, 2 * X)


def test_custom_calls_run_what_was_registered() -> None:
    text = """ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(x), custom_call_target="test_driver_triple"
}"""
    with pytest.raises(hloc.HloError, match="test_driver_triple"):
        hloc.compile(text)
    hloc.register_custom_call("test_driver_triple", lambda x: 3 * x)
    (out,) = hloc.compile(text)(X)
    np.testing.assert_array_equal(out, 3 * X)


def test_flops_are_counted_where_trip_counts_are_known() -> None:
    assert driver.flops_of(hloc.parse(TEXT)) == 12
    loop = """
body { s = s32[] parameter(0)  ROOT n = s32[] add(s, s) }
condition { s = s32[] parameter(0)  ROOT r = pred[] constant(false) }
ENTRY e { s = s32[] parameter(0)  ROOT w = s32[] while(s), condition=condition, body=body }
"""
    assert driver.flops_of(hloc.parse(loop)) == 0


def test_public_names_are_complete() -> None:
    for name in hloc.__all__:
        assert callable(getattr(hloc, name))
    assert set(hloc.__all__) < set(dir(hloc))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = hloc.nonsense


class Endless(io.BytesIO):
    """A file that never ends, and refuses to be asked for much at once."""

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert 0 < size <= 1 << 20, "memory for all of it would be asked for before there is any"
        return bytes(size)


def test_files_are_read_in_pieces_up_to_the_limit() -> None:
    with limited(input_bytes=5_000_000):
        assert len(read_bounded(Endless())) == 5_000_001
    assert read_bounded(io.BytesIO(TEXT.encode())) == TEXT.encode()
