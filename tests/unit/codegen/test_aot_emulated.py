"""Objects for other machines answer as the code for this one; `make test-emulated` runs these.

Cross compilers, QEMU's user mode, wasm-ld and node are asked for; what is missing is skipped.
"""

import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.codegen.cpu.aot.linkable import Library, build_library
from hloc.options import CompileOptions
from tests.tolerance import bounds
from tests.unit.codegen.aot_harness import (
    EXAMPLES,
    JAX_PROGRAMS,
    Array,
    assert_answers,
    compiled_of,
    example_inputs,
    run_on_stdin,
    stdin_driver,
    write_library,
)
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

EMULATED = {
    "aarch64": ("aarch64-linux-gnu", "qemu-aarch64"),
    "armv7": ("arm-linux-gnueabihf", "qemu-arm"),
    "riscv64": ("riscv64-linux-gnu", "qemu-riscv64"),
}
"""Target -> prefix of its cross compiler, and what runs its programs here."""

ELEMENTWISE = """HloModule every
ENTRY e { x = f32[1001] parameter(0)
  a = f32[1001] exponential(x)
  b = f32[1001] tanh(x)
  c = f32[1001] sine(x)
  d = f32[1001] abs(x)
  f = f32[1001] log-plus-one(d)
  g = f32[1001] sqrt(d)
  h = s32[1001] convert(x)
  i = s32[1001] multiply(h, h)
  j = f16[1001] convert(x)
  k = f16[1001] add(j, j)
  l = bf16[1001] convert(x)
  m = bf16[1001] multiply(l, l)
  n = f64[1001] convert(x)
  o = f64[1001] divide(n, n)
  p = pred[1001] compare(a, b), direction=GT
  ROOT t = (f32[1001], f32[1001], f32[1001], f32[1001], f32[1001], s32[1001], f16[1001],
    bf16[1001], f64[1001], pred[1001]) tuple(a, b, c, f, g, i, k, m, o, p) }
"""


def emulated(
    folder: Path, arch: str, text: str, arrays: list[Array], features: str = ""
) -> tuple[Library, bytes]:
    """Compile `text` for a machine, run it under emulation; return the bytes of its results."""
    cross, emulator = EMULATED[arch]
    if not (shutil.which(f"{cross}-gcc") and shutil.which(emulator)):
        pytest.skip(f"there is no {cross}-gcc or {emulator}")
    options = CompileOptions(triple=arch, features=features)
    library = build_library(compiled_of(text, options), "m")
    write_library(folder, "m", library)
    (folder / "main.c").write_text(stdin_driver(library))
    words = [f"{cross}-gcc", "-O1", "-static", "main.c", "m.o", "-lm", "-o", "program"]
    subprocess.run(words, cwd=folder, check=True, timeout=PATIENCE)
    return library, run_on_stdin([emulator, folder / "program"], arrays)


@pytest.mark.parametrize("name", JAX_PROGRAMS)
@pytest.mark.parametrize("arch", EMULATED)
def test_jax_programs_answer_the_same(tmp_path: Path, arch: str, name: str) -> None:
    arrays = example_inputs(name)
    text = (EXAMPLES / f"{name}.hlo").read_text()
    library, data = emulated(tmp_path, arch, text, arrays)
    assert_answers(name, library, data, arrays)


@pytest.mark.parametrize("name", JAX_PROGRAMS)
def test_jax_programs_answer_the_same_with_sve(tmp_path: Path, name: str) -> None:
    """`--mattr=+sve` lets LLVM take vectors whose length is known when they run."""
    arrays = example_inputs(name)
    text = (EXAMPLES / f"{name}.hlo").read_text()
    library, data = emulated(tmp_path, "aarch64", text, arrays, "+sve")
    assert_answers(name, library, data, arrays)


PRODUCTS = """HloModule products
ENTRY e { a = f32[67,80] parameter(0)
  b = f32[80,61] parameter(1)
  at = f32[80,67] transpose(a), dimensions={1,0}
  ah = f16[67,80] convert(a)
  bh = f16[80,61] convert(b)
  ab = bf16[67,80] convert(a)
  bb = bf16[80,61] convert(b)
  ad = f64[67,80] convert(a)
  bd = f64[80,61] convert(b)
  an = f32[67,80] negate(a)
  ai = s8[67,80] convert(an)
  bi = s8[80,61] convert(b)
  au = u8[67,80] convert(a)
  bu = u8[80,61] convert(b)
  c = f32[67,61] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[67,61] dot(at, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  f = f16[67,61] dot(ah, bh), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = bf16[67,61] dot(ab, bb), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f64[67,61] dot(ad, bd), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  i = s32[67,61] dot(ai, bi), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  j = s32[67,61] dot(au, bu), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = s32[67,61] dot(ai, bu), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  as = f32[67,77] slice(a), slice={[0:67], [0:77]}
  v = f32[1,77] slice(as), slice={[5:6], [0:77]}
  vs = f32[77] reshape(v)
  l = f32[67] dot(as, vs), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a66 = f32[66,75] slice(a), slice={[0:66], [0:75]}
  ar = f32[3,22,75] reshape(a66)
  b75 = f32[75,61] slice(b), slice={[0:75], [0:61]}
  br = f32[3,25,61] reshape(b75)
  al = f32[3,22,25] slice(ar), slice={[0:3], [0:22], [0:25]}
  m = f32[3,22,61] dot(al, br), lhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT t = (f32[67,61], f32[67,61], f16[67,61], bf16[67,61], f64[67,61], s32[67,61], s32[67,61],
    s32[67,61], f32[67], f32[3,22,61]) tuple(c, d, f, g, h, i, j, k, l, m) }
"""
"""Whole numbers whose sums are exact in every type, with edges of tiles in both directions."""


@pytest.mark.parametrize(
    ("arch", "features"),
    [("aarch64", ""), ("aarch64", "+dotprod,+fullfp16"), ("armv7", ""), ("riscv64", "")],
)
def test_products_answer_the_same(tmp_path: Path, arch: str, features: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 3, dims).astype(np.float32) for dims in ((67, 80), (80, 61))]
    data = emulated(tmp_path, arch, PRODUCTS, arrays, features)[1]
    assert data == b"".join(want.tobytes() for want in hloc.compile(PRODUCTS)(*arrays))


def check_every(data: bytes, x: Array) -> None:
    at = 0
    for want in hloc.compile(ELEMENTWISE)(x):
        found = np.frombuffer(data[at : at + want.nbytes], want.dtype)
        at += want.nbytes
        np.testing.assert_allclose(
            found.astype(np.float64), want.astype(np.float64), **bounds("f32 elsewhere")
        )
    assert at == len(data)


@pytest.mark.parametrize("arch", EMULATED)
def test_functions_and_element_types_answer_the_same(tmp_path: Path, arch: str) -> None:
    x = np.linspace(-9, 9, 1001, dtype=np.float32) + np.float32(1e-3)
    check_every(emulated(tmp_path, arch, ELEMENTWISE, [x])[1], x)


@pytest.mark.parametrize(
    ("arch", "features"), [("aarch64", "+sve"), ("armv7", ""), ("riscv64", "")]
)
def test_integers_below_a_byte_answer_the_same(tmp_path: Path, arch: str, features: str) -> None:
    text = """HloModule narrow
ENTRY e { x = s4[1001] parameter(0)
  f = f32[1001] convert(x)
  i = s32[1001] convert(x)
  n = s4[1001] negate(x)
  ROOT t = (f32[1001], s32[1001], s4[1001]) tuple(f, i, n) }"""
    x = (np.arange(1001, dtype=np.int64) % 16 - 8).astype(ml_dtypes.int4)
    data = emulated(tmp_path, arch, text, [x], features)[1]
    assert data == b"".join(want.tobytes() for want in hloc.compile(text)(x))


@pytest.mark.parametrize("arch", EMULATED)
def test_programs_that_read_files_answer_the_same(
    tmp_path: Path, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cross, emulator = EMULATED[arch]
    if not (shutil.which(f"{cross}-gcc") and shutil.which(emulator)):
        pytest.skip(f"there is no {cross}-gcc or {emulator}")
    monkeypatch.setenv("CC", f"{cross}-gcc -static")
    module, program = EXAMPLES / "gpt_block.hlo", tmp_path / "program"
    words = ["--emit=exe", f"--target={arch}", "-q", "-o", str(program)]
    assert main([str(module), *words]) == 0
    arrays = example_inputs("gpt_block")
    paths = [tmp_path / f"arg{i}.npy" for i in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    command: list[str | Path] = [emulator, program, *paths, "-o", tmp_path / "out"]
    subprocess.run(command, check=True, timeout=PATIENCE)
    (want,) = hloc.compile(module.read_text())(*arrays)
    np.testing.assert_allclose(np.load(tmp_path / "out0.npy"), want, **bounds("f32 program"))


# ---------------------------------------------------------------- WebAssembly

NODE = """
const fs = require('fs');
const [file, run, tempBytes, inSizes, outSizes] = process.argv.slice(2);
const sizes = text => text.split(',').filter(Boolean).map(Number);
WebAssembly.instantiate(fs.readFileSync(file), {env: {}}).then(({instance}) => {
  const {memory, __heap_base} = instance.exports;
  let top = __heap_base.value;
  const take = size => { const at = (top + 63) & ~63; top = at + size; return at; };
  const inputs = sizes(inSizes).map(take), outputs = sizes(outSizes).map(take);
  const temp = take(Number(tempBytes));
  const lists = [inputs, outputs].map(list => [take(4 * list.length + 4), list]);
  const missing = top - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  const given = fs.readFileSync(0);
  let at = 0;
  sizes(inSizes).forEach((size, i) => {
    new Uint8Array(memory.buffer).set(given.subarray(at, at + size), inputs[i]);
    at += size;
  });
  for (const [where, list] of lists) new Uint32Array(memory.buffer, where).set(list);
  const status = instance.exports[run](lists[0][0], lists[1][0], temp);
  if (status) process.exit(10 + status);
  const results = sizes(outSizes).map((size, i) => Buffer.from(memory.buffer, outputs[i], size));
  fs.writeSync(1, Buffer.concat(results));
});
"""
"""Arguments on stdin, results on stdout; the module imports nothing."""


def in_node(folder: Path, text: str, arrays: list[Array]) -> tuple[Library, bytes]:
    if not (shutil.which("wasm-ld") and shutil.which("node")):
        pytest.skip("there is no wasm-ld or no node")
    library = build_library(compiled_of(text, CompileOptions(triple="wasm32")), "m")
    (folder / "m.hlo").write_text(text)
    (folder / "run.js").write_text(NODE)
    words = ["--target=wasm32", "-shared", "-q", "--symbol-prefix=m", "-o", str(folder / "m")]
    assert main([str(folder / "m.hlo"), *words]) == 0
    interface = library.interface
    sizes = [
        ",".join(str(a.shape.size_bytes) for a in arrays)
        for arrays in (interface.arguments, interface.results)
    ]
    temp = str(interface.temp_bytes + 1)
    command: list[str | Path] = [
        "node",
        folder / "run.js",
        folder / "m.wasm",
        "m_run",
        temp,
        *sizes,
    ]
    return library, run_on_stdin(command, arrays)


@pytest.mark.parametrize("name", JAX_PROGRAMS)
def test_jax_programs_answer_the_same_in_node(tmp_path: Path, name: str) -> None:
    arrays = example_inputs(name)
    library, data = in_node(tmp_path, (EXAMPLES / f"{name}.hlo").read_text(), arrays)
    assert library.needs == ()
    assert_answers(name, library, data, arrays)


def test_functions_and_element_types_answer_the_same_in_node(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 1001, dtype=np.float32) + np.float32(1e-3)
    check_every(in_node(tmp_path, ELEMENTWISE, [x])[1], x)
