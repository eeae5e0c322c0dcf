"""`hloc -shared` and `--emit=exe`: libraries that load, programs that read and write .npy files."""

import ctypes
import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.codegen.cpu.aot.program_sources import program_sources
from hloc.codegen.llvm.target import host_target
from hloc.dtypes import DTYPES
from hloc.options import CompileOptions
from tests.unit.codegen.aot_harness import compiled_of
from tests.waiting import PATIENCE

Array = np.ndarray[Any, np.dtype[Any]]
Capture = pytest.CaptureFixture[str]

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")

TEXT = """HloModule m
ENTRY e { x = f32[2,3] parameter(0)
  n = s4[3] parameter(1)
  y = f32[2,3] tanh(x)
  k = s4[3] negate(n)
  ROOT t = (f32[2,3], s4[3]) tuple(y, k) }
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4
SANITIZED = "cc -g -fsanitize=address,undefined -fno-sanitize-recover=all"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CC", raising=False)
    Path("a.hlo").write_text(TEXT)
    np.save("x.npy", X)
    np.save("n.npy", np.array([1, -3, 7], np.int8))
    return tmp_path


def built(text: str, *words: str) -> None:
    """Write the program `./p` for the module `text`."""
    Path("p.hlo").write_text(text)
    assert main(["p.hlo", "-q", "--emit=exe", *words]) == 0


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run(
        ["./p", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )


# ---------------------------------------------------------------- programs


@needs_cc
def test_a_program_answers_as_the_code_in_memory(capsys: Capture) -> None:
    assert main(["a.hlo", "--emit=exe", "-o", "p"]) == 0
    assert "p --help" in capsys.readouterr().err
    assert run("x.npy", "n.npy", "-o", "out").returncode == 0
    (y, _) = hloc.compile(TEXT)(X, np.array([1, -3, 7], np.int8).view(ml_dtypes.int4))
    np.testing.assert_array_equal(np.load("out0.npy"), y)
    assert np.load("out1.npy").tolist() == [-1, 3, -7]
    shown = run("x.npy", "n.npy").stdout.splitlines()
    assert shown[1] == "out1 s4[3] -1 3 -7"
    np.testing.assert_array_equal(np.array(shown[0].split()[2:], np.float32), y.ravel())


@needs_cc
def test_every_element_type_is_read_and_written() -> None:
    """Element types of NumPy by their names; of the others the bits, as numpy.save has them."""
    dtypes = [dtype for dtype in DTYPES.values() if not dtype.is_special]
    lines = [f"  p{i} = {d.name}[5] parameter({i})" for i, d in enumerate(dtypes)]
    shapes = ", ".join(f"{d.name}[5]" for d in dtypes)
    root = f"  ROOT t = ({shapes}) tuple({', '.join(f'p{i}' for i in range(len(dtypes)))})"
    built("\n".join(["HloModule types", "ENTRY e {", *lines, root, "}"]))
    rng = np.random.default_rng(0)
    arrays = []
    for i, dtype in enumerate(dtypes):
        wide = rng.integers(0, 2, 5).astype(dtype.numpy)
        arrays.append(wide)
        np.save(f"p{i}.npy", wide)
    done = run(*(f"p{i}.npy" for i in range(len(dtypes))), "-o", "r")
    assert (done.returncode, done.stderr) == (0, "")
    for i, (dtype, want) in enumerate(zip(dtypes, arrays, strict=True)):
        found = np.load(f"r{i}.npy")
        if dtype.is_integer and dtype.bits < 8:
            assert found.dtype == (np.int8 if dtype.is_signed else np.uint8)
            np.testing.assert_array_equal(found, want.astype(np.int8))
            continue
        if found.dtype.kind == "V":
            found = found.view(dtype.numpy)
        assert found.dtype == dtype.numpy
        assert found.tobytes() == want.tobytes()


@needs_cc
def test_order_of_dimensions_and_bytes_may_be_any() -> None:
    built(
        """HloModule o
ENTRY e { x = f32[2,3]{0,1} parameter(0)
  b = bf16[2,3] parameter(1)
  two = f32[] constant(2)
  all = f32[2,3]{0,1} broadcast(two), dimensions={}
  y = f32[2,3]{0,1} multiply(x, all)
  ROOT t = (f32[2,3]{0,1}, bf16[2,3]) tuple(y, b) }"""
    )
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3)
    np.save("bits.npy", bits)
    np.save("fortran.npy", np.asfortranarray(X))
    np.save("big.npy", X.astype(">f4"))
    with open("later.npy", "wb") as file:
        np.lib.format.write_array(file, X, version=(2, 0))
    for name in ("x", "fortran", "big", "later"):
        assert run(f"{name}.npy", "bits.npy", "-o", "r.npy").returncode == 0
        np.testing.assert_array_equal(np.load("r0.npy"), 2 * X)
        np.testing.assert_array_equal(np.load("r1.npy").view(np.uint16), bits)


@needs_cc
def test_a_single_result_may_have_the_name_that_is_given() -> None:
    built("HloModule s\nENTRY e { x = f32[] parameter(0)\n ROOT n = f32[] negate(x) }")
    np.save("s.npy", np.float32(3))
    assert run("s.npy", "-o", "exact.npy").returncode == 0
    assert np.load("exact.npy") == -3
    assert np.load("exact.npy").shape == ()
    assert run("s.npy", "-o", "many").returncode == 0
    assert np.load("many0.npy") == -3


@needs_cc
def test_random_arguments_repeat_and_runs_are_timed() -> None:
    built(TEXT)
    first, again, other = (run(f"--random={seed}").stdout for seed in (3, 3, 4))
    assert first == again != other
    timed = run("--random", "--time=7")
    assert "then 7 runs: best" in timed.stderr
    assert timed.returncode == 0


def damaged(name: str) -> bytes:
    """Return the bytes of a file that cannot be argument 0."""
    good = Path("x.npy").read_bytes()
    file = io.BytesIO()
    if name == "records":
        np.save(file, np.zeros(3, [("a", "f4")]))
    elif name == "double":
        np.save(file, X.astype(np.float64))
    elif name == "shape":
        np.save(file, X.T)
    kinds = {
        "empty": b"",
        "text": b"1 2 3 4 5 6 7 8 9",
        "short": good[:-1],
        "in header": good[:40],
        "version": good[:6] + b"\x09" + good[7:],
        "long header": good[:6] + b"\x02\0\xff\xff\xff\xff" + good[10:],
        "no shape": good.replace(b"'shape'", b"'shade'"),
        "no type": good.replace(b"'descr'", b"'desck'"),
        "open type": good.replace(b"'<f4'", b"'<f4 "),
    }
    return kinds.get(name) or file.getvalue()


DAMAGES = {
    "empty": "it is no .npy file of NumPy",
    "text": "it is no .npy file of NumPy",
    "short": "it ends before its 24 bytes of elements",
    "in header": "it ends within its header",
    "version": "its version of the .npy format is not known",
    "long header": "its header is too long",
    "no shape": "its header has no shape",
    "no type": "its header has no element type",
    "open type": "arg0 is f32[2,3], as '<f4'",
    "records": "its elements are records",
    "double": "it has shape (2, 3) of '<f8', but arg0 is f32[2,3], as '<f4'",
    "shape": "it has shape (3, 2) of '<f4', but arg0 is f32[2,3], as '<f4'",
}


@needs_cc
def test_files_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is built with sanitizers, where the compiler has them: no file breaks it."""
    monkeypatch.setenv("CC", SANITIZED)
    Path("p.hlo").write_text(TEXT)
    if main(["p.hlo", "-q", "--emit=exe"]):
        monkeypatch.delenv("CC")
        built(TEXT)
    assert run("x.npy", "n.npy", "-o", "out").returncode == 0
    for name, said in DAMAGES.items():
        Path("bad.npy").write_bytes(damaged(name))
        done = run("bad.npy", "n.npy")
        assert (done.returncode, done.stdout) == (1, ""), name
        assert done.stderr.startswith("./p: bad.npy: "), (name, done.stderr)
        assert said in done.stderr
    np.save("wide.npy", np.array([1, 8, 0], np.int8))
    assert "element 1 is 8, but those of s4[3] are -8 to 7" in run("x.npy", "wide.npy").stderr
    assert "No such file" in run("x.npy", "none.npy").stderr
    assert "cannot write" in run("x.npy", "n.npy", "-o", "no/folder").stderr


@needs_cc
def test_a_wrong_call_is_answered_with_a_hint() -> None:
    built(TEXT)
    for words, said in (
        ([], "number of files: 0, and of arguments: 2"),
        (["x.npy"], "number of files: 1"),
        (["--nope"], "unknown option --nope"),
        (["-o"], "-o needs a name"),
        (["--time=0"], "expected a whole number"),
        (["--random=x"], "expected a whole number"),
        (["--random", "x.npy"], "--random takes no files"),
    ):
        done = run(*words)
        assert done.returncode == 2, words
        assert said in done.stderr
        assert "--help" in done.stderr
    shown = run("--help").stdout
    assert "arg1   s4[3]" in shown
    assert "--random[=SEED]" in shown


def test_sources_are_one_text_for_all_and_one_table() -> None:
    from hloc.codegen.cpu.aot.interface import interface_of

    compiled = compiled_of(TEXT, CompileOptions())
    sources = program_sources(interface_of(compiled, "m", static_temp=False))
    assert set(sources) == {"program.h", "fault.c", "arrays.c", "npy.c", "main.c", "table.c"}
    assert '{"arg0", "f32[2,3]", "parameter 0 (x)", FLOAT, 32, 8, 23, 4, 2,' in sources["table.c"]


@needs_cc
@pytest.mark.parametrize("name", ["program", "fault", "variant", "main", "arguments", "int"])
def test_the_module_may_have_any_name(name: str) -> None:
    built(f"HloModule {name}\nENTRY e {{ ROOT c = s32[2] constant({{1, 2}}) }}")
    assert run().stdout == "out0 s32[2] 1 2\n"


@needs_cc
def test_arrays_may_have_no_elements() -> None:
    built("HloModule z\nENTRY e { x = f32[0,3] parameter(0)\n ROOT n = f32[0,3] negate(x) }")
    np.save("z.npy", np.zeros((0, 3), np.float32))
    assert run("z.npy", "-o", "r.npy").returncode == 0
    assert np.load("r.npy").shape == (0, 3)


# ---------------------------------------------------------------- shared libraries


@needs_cc
def test_a_shared_library_loads_and_answers() -> None:
    text = "HloModule lib\nENTRY e { x = f32[2,3] parameter(0)\n ROOT y = f32[2,3] tanh(x) }"
    Path("lib.hlo").write_text(text)
    assert main(["lib.hlo", "-q", "-shared", "-o", "libnet.so"]) == 0
    assert "int lib_run(" in Path("libnet.h").read_text()
    library = ctypes.CDLL(str(Path("libnet.so").resolve()))
    y = np.zeros_like(X)
    inputs, outputs = (ctypes.c_void_p * 1)(X.ctypes.data), (ctypes.c_void_p * 1)(y.ctypes.data)
    assert library.lib_run(inputs, outputs, None) == 0
    np.testing.assert_array_equal(y, hloc.compile(text)(X)[0])


@needs_cc
def test_all_kinds_may_be_written_at_once() -> None:
    assert main(["a.hlo", "-q", "--emit=obj,header,shared,exe", "-o", "all"]) == 0
    assert {path.name for path in Path().glob("all*")} == {"all.o", "all.h", "all.so", "all"}
    assert main(["a.hlo", "-q", "--emit=shared", "-o", "exact.bin"]) == 0
    assert Path("exact.bin").read_bytes()[:4] == b"\x7fELF"


@needs_cc
@pytest.mark.skipif(not host_target().triple.startswith("x86_64"), reason="levels of x86-64")
def test_a_program_for_several_processors_says_which_code_it_runs() -> None:
    built(TEXT, "--mcpu=x86-64,v2,v3,v4")
    assert "code for x86-64" in run("--random", "--time=1").stderr


# ---------------------------------------------------------------- what is missing or wrong


def test_a_missing_linker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for words, said in (
        (["-shared"], "none of cc, gcc, clang, ld, ld.lld is there"),
        (["--emit=exe", "-o", "p"], "needs a C compiler for"),
        (["-shared", "--target=riscv64"], "apt install gcc-riscv64-linux-gnu"),
        (["-shared", "--target=wasm32"], "none of wasm-ld is there"),
    ):
        assert main(["a.hlo", *words]) == 1
        assert said in capsys.readouterr().err


def test_the_output_of_a_failed_compiler_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("CC", "false")
    assert main(["a.hlo", "--emit=exe", "-o", "p"]) == 1
    assert "false failed with exit code 1" in capsys.readouterr().err
    monkeypatch.setenv("CC", "/no/compiler")
    assert main(["a.hlo", "--emit=exe", "-o", "p"]) == 1
    assert "cannot run /no/compiler" in capsys.readouterr().err


def test_a_program_for_webassembly_is_refused(capsys: Capture) -> None:
    assert main(["a.hlo", "--emit=exe", "--target=wasm32", "-o", "p"]) == 3
    assert "no files to read" in capsys.readouterr().err


def test_a_program_never_replaces_its_module(capsys: Capture) -> None:
    Path("bare").write_text(TEXT)
    assert main(["bare", "--emit=exe"]) == 1
    assert "overwrite the module" in capsys.readouterr().err
    assert Path("bare").read_text() == TEXT


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-c", "-shared"], "exclude each other"),
        (["-shared", "-o", "-"], "cannot go to stdout"),
        (["--emit=exe", "-o", "-"], "cannot go to stdout"),
        (["--mcpu=v2,v3"], "several processors need -c"),
        (["--mcpu=v2,v3", "-c", "--run"], "cannot be run"),
        (["--mcpu=v2,haswell", "-c"], "takes levels of x86-64, not 'haswell'"),
        (["--mcpu=v2,v3", "-c", "--mattr=+fma"], "needs a single processor"),
        (["--mcpu=v2,v3", "-c", "--target=riscv64"], "has no processor 'x86-64-v2'"),
        (["--mcpu=,", "-c"], "expected the name of a processor"),
    ],
)
def test_wrong_usage(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["a.hlo", *words]) == 2
    assert said in capsys.readouterr().err
