"""What need not be imported: NumPy to read, Lark for plain text, passes for a kept program."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PRINT_MODULES = "; import sys; print(*sys.modules)"


def _imported(program: str, cache: Path) -> set[str]:
    """Return the modules that are there after `program`, which finds the text of an example."""
    found = subprocess.run(
        [sys.executable, "-c", f"import hloc; {program}{_PRINT_MODULES}"],
        input=(ROOT / "examples" / "softmax_relu.hlo").read_text(),
        env={**os.environ, "HLOC_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.split())


def test_a_module_as_xla_prints_it_is_read_without_lark(tmp_path: Path) -> None:
    found = _imported("import sys; hloc.parse(sys.stdin.read())", tmp_path)
    assert "hloc.parser.whole_text" in found
    assert not found & {"lark", "hloc.parser.structure", "hloc.parser.value_grammar"}


_LOADED = "(name for name, module in sys.modules.items() if type(module).__name__ != '_Deferred')"


def _loaded_by(words: list[str], cache: Path, shown: str = _LOADED) -> set[str]:
    """Return the modules that a command loads, or what else is `shown` after it."""
    program = (
        "import gc, sys; from hloc.cli import main; before = gc.get_stats(); main();"
        f"print(*{shown}, file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env={**os.environ, "HLOC_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stderr.split())


def test_parsing_a_small_module_loads_neither_numpy_nor_anything_of_later_stages(
    tmp_path: Path,
) -> None:
    loaded = _loaded_by(["parse", "examples/softmax_relu.hlo", "-q"], tmp_path)
    assert "hloc.parser" in loaded
    assert not loaded & {"numpy", "ml_dtypes", "llvmlite", "lark"}
    assert not loaded & {"inspect", "zipfile", "subprocess", "tempfile", "traceback"}
    later = {f"hloc.{room}" for room in ("opt", "codegen", "runtime", "evaluator", "memory")}
    assert not loaded & later


def test_a_kept_program_is_loaded_without_the_compiler(tmp_path: Path) -> None:
    compiles = "import sys; hloc.compile(sys.stdin.read())"
    first, second = _imported(compiles, tmp_path), _imported(compiles, tmp_path)
    for name in ("hloc.parser", "hloc.opt.pipeline", "hloc.codegen.cpu.backend"):
        assert name in first
        assert name not in second
    assert not any(name.startswith("hloc.codegen.cpu.emitters") for name in second)


def test_a_second_run_loads_neither_opcodes_nor_analyses_nor_engines(tmp_path: Path) -> None:
    words = ["examples/softmax_relu.hlo", "--run", "--random=0", "-q"]
    first, second = _loaded_by(words, tmp_path), _loaded_by(words, tmp_path)
    for name in (
        "hloc.ops",
        "hloc.parser",
        "hloc.opt.pipelines",
        "hloc.memory.assigned_buffers",
        "hloc.memory.buffer_assignment",
        "hloc.codegen.plan.planning",
        "hloc.codegen.cpu.backend",
    ):
        assert name in first
        assert name not in second
    assert "hloc.runtime.communicator.local" not in first
    assert "statistics" not in second
    for loaded in (first, second):  # narrow types, archives, helpers and pages are not asked for
        others = {"ml_dtypes", "zipfile", "subprocess", "traceback", "hloc.cli.explorer_page"}
        assert not loaded & others


def test_a_small_module_is_run_without_a_search_for_cycles(tmp_path: Path) -> None:
    """Each search walked through all that was loaded: 30 ms in a first run, 12 ms in a second."""
    words = ["examples/softmax_relu.hlo", "--run", "--random=0", "-q"]
    searches = "(b['collections'] - a['collections'] for a, b in zip(before, gc.get_stats()))"
    assert _loaded_by(words, tmp_path, searches) == {"0"}


def test_the_table_of_opcodes_is_complete_on_first_use(tmp_path: Path) -> None:
    """`hloc ops` reads no module before."""
    found = _imported(
        "from hloc.report import describe; assert len(describe.OPCODES) > 100", tmp_path
    )
    assert "hloc.ops" in found


def test_a_second_compilation_imports_no_emitters(tmp_path: Path) -> None:
    compiles = "import sys; hloc.compile(sys.stdin.read())"
    library = _imported(compiles, tmp_path)
    command = _loaded_by(["examples/softmax_relu.hlo", "--run", "--random=0", "-q"], tmp_path / "2")
    for name in ("fft.fft", "sort.topk", "linalg.linalg", "movement.pad"):
        assert f"hloc.codegen.cpu.emitters.{name}" in library - command
