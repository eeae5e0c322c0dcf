"""A text compiled once is loaded the next time, and never from a file that may be wrong."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import driver
from hloc.cache_directory import cache_directory, sealed
from hloc.errors import HloError
from hloc.ir import registered_targets
from hloc.options import CompileOptions
from hloc.runtime import program_cache
from hloc.runtime.executable import Executable
from hloc.runtime.manifest_file import program_bytes, read_program
from hloc.runtime.program_cache import KeptModule
from hloc.scipy_routines import has_lapack

ADD = """\
HloModule add
ENTRY e {
  x = f32[4]{0} parameter(0)
  c = f32[4]{0} constant({1, 2, 3, 4})
  ROOT s = f32[4]{0} add(x, c)
}
"""

BOUNDARY = """\
HloModule boundary
ENTRY e {
  p = (bf16[2,3]{0,1}, s8[2]{0}) parameter(0)
  q = pred[] parameter(1)
  a = bf16[2,3]{0,1} get-tuple-element(p), index=0
  b = s8[2]{0} get-tuple-element(p), index=1
  c = bf16[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6}})
  d = bf16[2,3]{0,1} multiply(a, c)
  ROOT t = (bf16[2,3]{0,1}, pred[], s8[2]{0}) tuple(d, q, b)
}
"""

IN_PLACE = """\
HloModule in_place, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[8]{0} parameter(0)
  y = f32[8]{0} parameter(1)
  ROOT z = f32[8]{0} add(x, y)
}
"""

DYNAMIC = """\
HloModule dynamic
ENTRY e {
  x = f32[<=4]{0} parameter(0)
  ROOT y = f32[<=4]{0} add(x, x)
}
"""

HOST = """\
HloModule host
ENTRY e {
  x = f32[4]{0} parameter(0)
  ROOT y = f32[4]{0} custom-call(x), custom_call_target="thrice"
}
"""


def _compile(text: str, **options: Any) -> Executable:
    executable = driver.compile_module(text, CompileOptions(**options))
    assert isinstance(executable, Executable)
    return executable


def _is_kept(executable: Executable) -> bool:
    return isinstance(executable.compiled, KeptModule)


def _programs(cache_folder: Path) -> list[Path]:
    return sorted(cache_folder.glob("program-*"))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (ADD, [np.arange(4)]),
        (IN_PLACE, [np.arange(8), np.ones(8)]),
        (DYNAMIC, [np.arange(3)]),
        (BOUNDARY, [np.arange(6).reshape(2, 3), np.array([1, -2]), np.array(True)]),
    ],
    ids=["constant", "aliased", "dynamic", "tuple with layouts"],
)
def test_a_loaded_program_is_the_compiled_one(
    cache_folder: Path, text: str, arguments: list[Any]
) -> None:
    first, second = _compile(text), _compile(text)
    assert not _is_kept(first)
    assert _is_kept(second)
    assert first.parameters == second.parameters
    assert first.outputs == second.outputs
    assert first.aliases == second.aliases
    assert first.buffers == second.buffers
    given = [
        np.asarray(a).astype(spec.numpy)
        for a, spec in zip(arguments, first.parameters, strict=True)
    ]
    wanted, found = first(*given), second(*given)
    assert [w.dtype for w in wanted] == [f.dtype for f in found]
    assert all(np.array_equal(w, f) for w, f in zip(wanted, found, strict=True))


def test_the_second_time_nothing_is_compiled(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compile(ADD)
    monkeypatch.setattr(driver, "parse_text", None)
    (found,) = _compile(ADD)(np.zeros(4, np.float32))
    assert found.tolist() == [1, 2, 3, 4]


def test_stages_of_a_loaded_program_are_made_when_asked_for(cache_folder: Path) -> None:
    first, second = _compile(ADD), _compile(ADD)
    assert second.stage("llvm-ir") == first.stage("llvm-ir")
    assert second.compiled.module.name == "add"


def test_donated_arguments_are_used_by_a_loaded_program(cache_folder: Path) -> None:
    _compile(IN_PLACE)
    x = np.ones(8, np.float32)
    (found,) = _compile(IN_PLACE)(x, x.copy(), donate=[0])
    assert found is x


def _cut(_name: str, data: bytes) -> bytes:
    return data[:-8]


def _changed(_name: str, data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _sealed(content: bytes) -> Callable[[str, bytes], bytes]:
    return lambda name, _: sealed(name, content)


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _changed,
        lambda _name, _data: b"",
        _sealed(b""),
        _sealed(b"\2" + bytes(7) + b"{}"),
        _sealed(b"\2" + bytes(7) + b"[]"),
        _sealed(b"\xff" * 40),
    ],
    ids=["cut", "changed", "empty", "no content", "no fields", "a list", "no JSON"],
)
def test_a_damaged_file_is_not_loaded(
    cache_folder: Path, damage: Callable[[str, bytes], bytes]
) -> None:
    _compile(ADD)
    (kept,) = _programs(cache_folder)
    whole = kept.read_bytes()
    kept.write_bytes(damage(kept.name, whole))
    executable = _compile(ADD)
    assert not _is_kept(executable)
    assert executable(np.zeros(4, np.float32))[0].tolist() == [1, 2, 3, 4]
    assert kept.read_bytes() == whole


def test_a_program_under_the_name_of_another_is_not_loaded(cache_folder: Path) -> None:
    _compile(ADD)
    _compile(ADD.replace("add(x, c)", "multiply(x, c)"))
    one, other = _programs(cache_folder)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    executable = _compile(ADD)
    assert not _is_kept(executable)
    assert executable(np.zeros(4, np.float32))[0].tolist() == [1, 2, 3, 4]


def test_machine_code_that_does_not_link_is_compiled_again(cache_folder: Path) -> None:
    _compile(ADD)
    (kept,) = _programs(cache_folder)
    program = read_program(kept.read_bytes()[32:])
    foreign = type(program)(program.manifest, (b"no object file",))
    data = program_bytes(foreign)
    assert data is not None
    kept.write_bytes(sealed(kept.name, data))
    assert not _is_kept(_compile(ADD))


@pytest.mark.parametrize("what", ["options", "text", "sources", "targets", "lapack"])
def test_what_a_program_depends_on_is_in_its_name(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    _compile(ADD)
    if what == "sources":
        monkeypatch.setattr(program_cache, "source_digest", lambda: "of another version")
    if what == "targets":
        monkeypatch.setitem(registered_targets._REGISTERED, "thrice", lambda x: 3 * x)
    if what == "lapack":  # large factorisations call SciPy once it is installed
        monkeypatch.setattr(program_cache, "has_lapack", lambda: not has_lapack())
    text = ADD.replace("4})", "5})") if what == "text" else ADD
    assert not _is_kept(_compile(text, opt_level=1 if what == "options" else 2))
    assert len(_programs(cache_folder)) == 2


def test_programs_that_call_the_host_are_not_kept(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registered_targets._REGISTERED, "thrice", lambda x: 3 * x)
    _compile(HOST)
    assert not _programs(cache_folder)


def test_large_programs_are_not_kept(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "_MAX_PROGRAM_BYTES", 1000)
    _compile(ADD)
    assert not _programs(cache_folder)


def test_the_memory_limit_counts_for_loaded_programs(cache_folder: Path) -> None:
    _compile(ADD)
    for _ in range(2):
        with pytest.raises(HloError, match="memory limit"):
            _compile(ADD, memory_limit_bytes=8)


def test_several_writers_at_a_time_leave_one_good_file(cache_folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: _compile(ADD), range(8)))
    results = [executable(np.zeros(4, np.float32))[0].tolist() for executable in made]
    assert results == [[1, 2, 3, 4]] * 8
    assert len(_programs(cache_folder)) == 1
    assert not list(cache_folder.glob("unfinished-*"))
    assert _is_kept(_compile(ADD))


def test_without_a_cache_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_CACHE_DIR", "")
    monkeypatch.chdir(tmp_path)
    cache_directory.cache_clear()
    assert not _is_kept(_compile(ADD))
    assert not _is_kept(_compile(ADD))
    assert not list(tmp_path.iterdir())


def test_faults_of_the_text_are_reported_every_time(cache_folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(HloError):
            _compile(ADD.replace("add(x, c)", "add(x, y)"))
    assert not _programs(cache_folder)
