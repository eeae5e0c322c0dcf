"""The example of docs/new-backend.md: target `c`, as a package beside hloc.

Programs run through a C compiler are compared with the evaluator; what needs no compiler is tested
without one.
"""

import ast
import io
import shutil
import tokenize
import tomllib
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.errors import UnsupportedError
from hloc.report.inputs import random_inputs
from tests.distributions import install
from tests.tolerance import assert_close

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "examples" / "new_backend"
PROGRAMS = [  # of one device
    path for path in sorted((ROOT / "examples").rglob("*.hlo")) if path.parent.name != "partitioned"
]
Capture = pytest.CaptureFixture[str]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    backends = project["entry-points"]["hloc.backends"]
    install(monkeypatch, tmp_path, project["name"], project["version"], backends, PACKAGE)


def check(text: str, *arrays: np.ndarray) -> None:
    """Compare target c with the evaluator."""
    module = hloc.parse(text)
    inputs = arrays or random_inputs(module, 0)
    got = hloc.compile(module, target="c")(*inputs)
    for number, (g, w) in enumerate(zip(got, hloc.evaluate(module, *inputs), strict=True)):
        assert_close(np.asarray(g), np.asarray(w), f"out{number}")


@needs_compiler
def test_sorts_and_topk_are_written_without_routines() -> None:
    """Routines are LLVM IR; the emitters that take their place are not asked here."""
    check(
        """HloModule m
        less {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER
        }
        ENTRY e {
          x = f32[3,70] parameter(0)
          s = f32[3,70] sort(x), dimensions={1}, to_apply=less
          k = (f32[3,5], s32[3,5]) topk(x), k=5, largest=true
          v = f32[3,5] get-tuple-element(k), index=0
          i = s32[3,5] get-tuple-element(k), index=1
          ROOT t = (f32[3,70], f32[3,5], s32[3,5]) tuple(s, v, i)
        }"""
    )


def test_it_is_installed_by_its_entry_point(capsys: Capture) -> None:
    assert main(["targets", "c"]) == 0
    listed = capsys.readouterr().out
    assert "c  package hloc-c 0.1.0" in listed
    assert "C99 source with the entry function hloc_entry" in listed


def test_the_source_can_be_read(capsys: Capture) -> None:
    program = str(ROOT / "examples" / "softmax_relu.hlo")
    assert main([program, "-q", "--target=c", "--emit=c"]) == 0
    source = capsys.readouterr().out
    assert "void hloc_entry(void **table)" in source
    assert "expf(" in source


def test_its_memory_is_that_of_the_plan(capsys: Capture) -> None:
    program = str(ROOT / "examples" / "lstm_scan.hlo")
    assert main([program, "--target=c", "--memory"]) == 0
    assert "while.7 while" in capsys.readouterr().err


def test_what_it_cannot_do_is_told_at_once() -> None:
    text = """HloModule m
    ENTRY e {
      x = c64[8] parameter(0)
      a = c64[8] fft(x), fft_type=FFT, fft_length={8}
      ROOT b = c64[8] fft(a), fft_type=IFFT, fft_length={8}
    }"""
    with pytest.raises(UnsupportedError, match=r"fft \(2 times .*target c has no emitter"):
        hloc.compile(text, target="c")


def test_without_a_compiler_only_the_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    program = str(ROOT / "examples" / "softmax_relu.hlo")
    assert main([program, "-q", "--target=c", "--emit=c"]) == 0
    assert main(["run", program, "-q", "--target=c"]) == 3
    assert "needs a C compiler" in capsys.readouterr().err


@needs_compiler
def test_rows_beyond_the_cache_need_no_word_for_prefetching() -> None:
    check(
        """HloModule m
        larger {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] maximum(a, b)
        }
        sum {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b)
        }
        ENTRY e {
          x = f32[512,16384] parameter(0)
          low = f32[] constant(-inf)
          zero = f32[] constant(0)
          m = f32[512] reduce(x, low), dimensions={1}, to_apply=larger
          ms = f32[512,16384] broadcast(m), dimensions={0}
          d = f32[512,16384] subtract(x, ms)
          e = f32[512,16384] exponential(d)
          ROOT s = f32[512] reduce(e, zero), dimensions={1}, to_apply=sum
        }"""
    )


@needs_compiler
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.stem))
def test_the_examples_give_the_answers_of_the_evaluator(path: Path) -> None:
    check(path.read_text())


CASES = {
    "integers wrap": """
      x = s32[64] parameter(0)
      s = s64[64] convert(x)
      n = s8[64] convert(x)
      d = s8[64] multiply(n, n)
      k = u16[64] convert(x)
      q = u16[64] multiply(k, k)
      ROOT t = (s8[64], u16[64], s64[64]) tuple(d, q, s)""",
    "shifts and divisions": """
      x = s32[64] parameter(0)
      c = s32[] constant(3)
      k = s32[64] broadcast(c), dimensions={}
      a = s32[64] shift-right-arithmetic(x, k)
      l = s32[64] shift-right-logical(x, k)
      d = s32[64] divide(x, k)
      r = s32[64] remainder(x, k)
      z = s32[64] count-leading-zeros(x)
      ROOT t = (s32[64], s32[64], s32[64], s32[64], s32[64]) tuple(a, l, d, r, z)""",
    "narrow floats": """
      x = f32[64] parameter(0)
      b = bf16[64] convert(x)
      e = bf16[64] exponential(b)
      h = f16[64] convert(x)
      m = f16[64] multiply(h, h)
      q = f8e4m3fn[64] convert(x)
      w = f32[64] convert(q)
      i = s4[64] convert(x)
      j = s4[64] add(i, i)
      ROOT t = (bf16[64], f16[64], f32[64], s4[64]) tuple(e, m, w, j)""",
    "integers below a byte": """
      x = s4[64] parameter(0)
      y = u4[64] parameter(1)
      a = s4[64] multiply(x, x)
      b = u4[64] add(y, y)
      c = f32[64] convert(x)
      ROOT t = (s4[64], u4[64], f32[64]) tuple(a, b, c)""",
    "complex numbers": """
      x = c64[2,3] parameter(0)
      y = c64[3,2] parameter(1)
      d = c64[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      e = c64[2,2] exponential(d)
      ROOT q = c64[2,2] divide(e, d)""",
    "batched product of three dimensions": """
      x = f32[5,2,3,4] parameter(0)
      y = f32[3,6,5,4] parameter(1)
      ROOT d = f32[5,2,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={2},
        lhs_contracting_dims={3,2}, rhs_contracting_dims={3,0}""",
    "pieces with edges": """
      x = f32[4,5] parameter(0)
      z = f32[] constant(7)
      p = f32[7,9] pad(x, z), padding=1_2x-1_1_1
      y = f32[2,9] iota(), iota_dimension=1
      c = f32[9,9] concatenate(p, y), dimensions={0}
      ROOT r = f32[9,9] reverse(c), dimensions={1}""",
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_element_types_and_pieces(name: str) -> None:
    check(f"HloModule m\n\nENTRY e {{{CASES[name]}\n}}\n")


@needs_compiler
def test_floats_that_no_integer_holds() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[8] parameter(0)
      a = s32[8] convert(x)
      b = u8[8] convert(x)
      ROOT t = (s32[8], u8[8]) tuple(a, b)
    }"""
    check(text, np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.5, -2.5, 300], np.float32))


@needs_compiler
def test_zeros_have_signs_and_nan_is_handed_on() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      ROOT m = f32[4] maximum(x, y)
    }"""
    x = np.array([-0.0, 0.0, np.nan, 1], np.float32)
    (found,) = hloc.compile(text, target="c")(x, x[[1, 0, 3, 2]])
    assert np.signbit(found[:2]).tolist() == [False, False]
    assert np.isnan(found[2:]).all()


@needs_compiler
def test_host_functions_are_called_and_arguments_given_away() -> None:
    def twice(x: np.ndarray) -> np.ndarray:
        return 2 * x

    hloc.register_custom_call("test_new_backend_twice", twice)
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
    ENTRY e {
      x = f32[4] parameter(0)
      c = f32[4] custom-call(x), custom_call_target="test_new_backend_twice"
      ROOT r = f32[4] add(c, x)
    }"""
    x = np.arange(4, dtype=np.float32)
    (found,) = hloc.compile(text, target="c")(x, donate=(0,))
    assert found.tolist() == [0, 3, 6, 9]


def test_it_stays_small_enough_to_read() -> None:
    lines = sum(_code_lines(path.read_text()) for path in PACKAGE.rglob("*.py"))
    assert lines < 400


def _code_lines(source: str) -> int:
    """Count the lines that are neither blank, nor comments, nor documentation."""
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    nothing = layout | {tokenize.COMMENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return len({token.start[0] for token in tokens if token.type not in nothing} - texts)
