"""The examples against XLA: hloc's evaluator and its machine code give XLA's stored answers.

These are whole programs (training step, transformer block, loop), so they guard the straight way
from text to numbers; single opcodes have their own tests.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.evaluator import evaluate_devices
from hloc.ir.module import Module
from hloc.ir.sharded_signature import sharded_signature
from hloc.runtime.shards import cut_all
from hloc.shapes import ArrayShape, Shape, leaves
from tests.tolerance import assert_close

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DUMPED = ("mlp_train_step", "gpt_block", "lstm_scan", "softmax_relu")
SHARDED = ("tensor_parallel_block", "data_parallel_step")
MAX_BYTES = 100_000  # larger dumps do not belong in the repository
Array = np.ndarray[Any, np.dtype[Any]]


def arrays(path: Path, prefix: str, shapes: Iterator[Shape]) -> list[Array]:
    """Read `prefix0`, `prefix1`, ... as the leaves of `shapes`; uint16[4] is bf16[4] again."""
    found = []
    with np.load(path, allow_pickle=False) as stored:
        flat = [leaf for shape in shapes for _, leaf in leaves(shape)]
        assert sorted(stored.files) == sorted(f"{prefix}{i}" for i in range(len(flat)))
        for i, leaf in enumerate(flat):
            assert isinstance(leaf, ArrayShape)
            found.append(stored[f"{prefix}{i}"].view(leaf.dtype.numpy))
            assert found[-1].shape == leaf.dims
    return found


def load(name: str) -> Module:
    return hloc.load(str(EXAMPLES / f"{name}.hlo"))


def inputs_of(module: Module, name: str) -> list[Array]:
    shapes = (parameter.shape for parameter in module.entry.parameters)
    return arrays(EXAMPLES / f"{name}.inputs.npz", "arg", shapes)


def check_outputs(module: Module, name: str, got: list[Array]) -> None:
    want = arrays(EXAMPLES / f"{name}.outputs.npz", "out", iter((module.entry.root.shape,)))
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_close(np.asarray(g), w, f"{name} out{i}")


@pytest.mark.parametrize("name", DUMPED)
def test_evaluator_gives_xlas_answer(name: str) -> None:
    module = load(name)
    check_outputs(module, name, hloc.evaluate(module, *inputs_of(module, name)))


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
@pytest.mark.parametrize("name", DUMPED)
def test_compiled_gives_xlas_answer(name: str, opt_level: int) -> None:
    module = load(name)
    inputs = inputs_of(module, name)
    executable = hloc.compile(module, opt_level=opt_level)
    check_outputs(module, name, executable(*inputs))
    check_outputs(module, name, executable(*inputs))  # again: the arena of the first run is kept


@pytest.mark.parametrize("name", SHARDED)
def test_annotated_modules_give_xlas_answer_partitioned_by_hloc(name: str) -> None:
    module = load(name)
    whole = module.entry.root.shape
    pipeline = hloc.Pipeline.parse("sharding-propagation,spmd-partitioner")
    local = hloc.parse(module.to_text())
    pipeline.run(local)
    assert local.entry.parameters[-1].shape != module.entry.parameters[-1].shape
    got = hloc.compile(local)(*inputs_of(module, name))
    want = arrays(EXAMPLES / f"{name}.outputs.npz", "out", iter((whole,)))
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_close(np.asarray(g), w, f"{name} out{i}")


@pytest.mark.parametrize("name", SHARDED)
def test_modules_partitioned_by_xla_give_its_answer(name: str) -> None:
    module = load(name)
    local = load(f"partitioned/{name}")
    parts = cut_all(inputs_of(module, name), sharded_signature(local))
    compiled = hloc.compile(local).run_devices(parts)
    want = arrays(EXAMPLES / f"{name}.outputs.npz", "out", iter((module.entry.root.shape,)))
    for results in (compiled, evaluate_devices(local, parts)):
        for i, (on_devices, whole) in enumerate(zip(results, want, strict=True)):
            for device, part in enumerate(on_devices):
                halves = whole.reshape(-1, *part.shape)  # of the batch; one where it is whole
                wanted = halves[device // 4 % len(halves)]
                assert_close(part, wanted, f"{name} out{i} on device {device}")


@pytest.mark.parametrize("spelling", ["default", "optimized"])
def test_other_spellings_compute_the_same(spelling: str) -> None:
    """The default print with metadata and stack frames, and the module after XLA's own passes."""
    module = load(f"softmax_relu.{spelling}")
    inputs = inputs_of(module, "softmax_relu")
    check_outputs(module, "softmax_relu", hloc.evaluate(module, *inputs))
    check_outputs(module, "softmax_relu", hloc.compile(module)(*inputs))


def test_short_and_default_spelling_are_one_module() -> None:
    assert load("softmax_relu.default").to_text("short") == load("softmax_relu").to_text("short")


def blocks(text: str) -> list[str]:
    """Return header and computations, sorted: XLA's own order changes when its print is read."""
    return sorted(block.strip() for block in text.split("\n\n") if block.strip())


PRINTS = [
    (path.relative_to(EXAMPLES), style)
    for path in sorted(EXAMPLES.rglob("*.hlo"))
    for style in ("default", "short")
    # Their computations change their order, by which stack frames are numbered (as in XLA).
    if (path.name, style)
    not in (("softmax_relu.optimized.hlo", "default"), ("data_parallel_step.hlo", "default"))
]


@pytest.mark.parametrize(("path", "style"), PRINTS, ids=str)
def test_printing_and_reading_again_changes_nothing(path: Path, style: str) -> None:
    text = hloc.load(str(EXAMPLES / path)).to_text(style, large_constants=True)
    assert blocks(hloc.parse(text).to_text(style, large_constants=True)) == blocks(text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.hlo")), ids=lambda path: path.stem)
def test_canonical_print_is_read(path: Path) -> None:
    module = hloc.load(str(path))
    again = hloc.parse(module.to_text("canonical", large_constants=True))
    assert len(again.entry) == len(module.entry)


@pytest.mark.parametrize("name", DUMPED)
def test_short_text_is_printed_as_xla_printed_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.hlo").read_text()
    assert blocks(load(name).to_text("short")) == blocks(text)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("modules/*.hlo")), ids=lambda path: path.stem)
def test_hand_written_modules_run_as_evaluated(path: Path) -> None:
    module = hloc.load(str(path))
    rng = np.random.default_rng(0)
    inputs: list[Array] = []
    for parameter in module.entry.parameters:
        dtype, dims = parameter.array.dtype, parameter.array.dims
        if dtype.is_unsigned:
            inputs.append(rng.integers(0, 2**dtype.bits, dims, dtype.numpy))
        else:
            inputs.append(rng.uniform(-2, 2, dims).astype(dtype.numpy))
    want = hloc.evaluate(module, *inputs)
    for opt_level in (0, 2):
        got = hloc.compile(module, opt_level=opt_level)(*inputs)
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_close(g, w, f"{path.stem} -O{opt_level} out{i}")


def test_files_are_small_and_name_no_foreign_path() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.name for path in files if path.stat().st_size > MAX_BYTES} == set()
    dumps = [path for path in files if path.suffix == ".hlo"]
    assert [path.name for path in dumps if '"/' in path.read_text()] == []
