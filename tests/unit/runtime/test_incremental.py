"""A module that differs in one instruction compiles the kernels that differ, with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.cache_directory import cache_directory, trim_cache
from hloc.cli import main
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.llvm import object_cache
from hloc.codegen.llvm.object_cache import MachineCode
from hloc.formats.to_proto import module_to_bytes
from hloc.options import CompileOptions
from hloc.runtime import program_cache
from hloc.runtime.executable import Executable

SIZES = range(1000, 1012)


@pytest.fixture(autouse=True)
def _all_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of a test are short."""
    monkeypatch.setattr(object_cache, "_LEAST_INDEXED_SECONDS", 0)


def _module(changed: str = "", size: int = 1005) -> str:
    """Return a module with a kernel per size, `tanh(1.5 x) + x`, and one line `changed`."""
    lines = []
    for n in SIZES:
        default = f"  t{n} = f32[{n}]{{0}} tanh(m{n})"
        lines += [
            f"  x{n} = f32[{n}]{{0}} parameter({n - SIZES.start})",
            f"  c{n} = f32[] constant(1.5)",
            f"  b{n} = f32[{n}]{{0}} broadcast(c{n}), dimensions={{}}",
            f"  m{n} = f32[{n}]{{0}} multiply(x{n}, b{n})",
            default if n != size or not changed else changed,
            f"  s{n} = f32[{n}]{{0}} add(t{n}, x{n})",
        ]
    results = ", ".join(f"s{n}" for n in SIZES)
    shapes = ", ".join(f"f32[{n}]{{0}}" for n in SIZES)
    return "\n".join(
        ["HloModule m", "ENTRY e {", *lines, f"  ROOT r = ({shapes}) tuple({results})", "}", ""]
    )


SINE = _module("  t1005 = f32[1005]{0} sine(m1005)")


def _compiled(text: str, **options: Any) -> tuple[Executable, MachineCode]:
    executable = driver.compile_module(text, CompileOptions(**options))
    assert isinstance(executable, Executable)
    module = executable.compiled
    assert isinstance(module, CpuModule)
    return executable, module.code


def _bits(executable: Executable) -> list[bytes]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(n, np.float32) for n in SIZES]
    return [result.tobytes() for result in executable(*arrays)]


@pytest.mark.parametrize(
    "changed",
    [
        SINE,
        SINE.replace("constant(1.5)", "constant(2.5)", 1),
        _module().replace("c1003 = f32[] constant(1.5)", "c1003 = f32[] constant(2.5)"),
    ],
    ids=["opcode", "opcode and constant", "constant"],
)
def test_only_what_changed_is_compiled_with_the_same_bits(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    _, first = _compiled(_module())
    assert (first.functions, first.kept) == (len(SIZES), 0)
    executable, code = _compiled(changed)
    differing = 2 if "2.5" in changed and "sine" in changed else 1
    assert (code.functions, code.kept) == (len(SIZES), len(SIZES) - differing)
    monkeypatch.setenv("HLOC_CACHE_DIR", "")
    cache_directory.cache_clear()
    alone, code = _compiled(changed)
    assert code.kept == 0
    assert _bits(executable) == _bits(alone)


def test_a_changed_program_is_kept_whole(cache_folder: Path) -> None:
    _compiled(_module())
    executable, _ = _compiled(SINE)
    kept = hloc.compile(SINE)
    assert isinstance(kept.compiled, program_cache.KeptModule)
    assert _bits(kept) == _bits(executable)


def test_another_version_of_hloc_takes_what_it_would_compile_to_the_same(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = _compiled(_module())
    monkeypatch.setattr(program_cache, "source_digest", lambda: "of another version")
    _, second = _compiled(_module())
    assert (second.kept, second.objects) == (len(SIZES), first.objects)


@pytest.mark.parametrize("options", [{"flush_subnormals": True}, {"fast_math": True}])
def test_options_that_change_code_find_nothing(
    cache_folder: Path, options: dict[str, bool]
) -> None:
    _compiled(_module())
    _, code = _compiled(SINE, **options)
    assert code.kept == 0


def test_another_number_of_threads_finds_all(cache_folder: Path) -> None:
    _compiled(_module(), threads=1)
    _, code = _compiled(_module(), threads=2)
    assert code.kept == len(SIZES)


def test_protos_and_texts_share_kernels(cache_folder: Path) -> None:
    """As `jax.jit` on hloc's backend compiles."""
    pytest.importorskip("google.protobuf")
    _compiled(_module())
    executable = driver.compile_proto(module_to_bytes(hloc.parse(SINE)), "m")
    assert isinstance(executable, Executable)
    assert isinstance(executable.compiled, CpuModule)
    assert executable.compiled.code.kept == len(SIZES) - 1


def test_trimmed_files_are_compiled_again(cache_folder: Path) -> None:
    _compiled(_module())
    trim_cache(0)
    assert not [file for file in cache_folder.iterdir() if file.name != "trimmed"]
    executable, code = _compiled(SINE)
    assert code.kept == 0
    assert len(_bits(executable)) == len(SIZES)


def test_the_command_line_says_how_many_were_kept(
    cache_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _compiled(_module(), opt_level=2)
    file = tmp_path / "m.hlo"
    file.write_text(SINE)
    assert main([str(file), "-O2", "--run", "--random=0", "--time-passes"]) == 0
    assert "11 of 12 kernels from the cache" in capsys.readouterr().err
    assert main(["cache"]) == 0
    assert "1 index" in capsys.readouterr().out
