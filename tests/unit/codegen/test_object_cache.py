"""Objects are made once, and never taken from a damaged file."""

from dataclasses import replace
from pathlib import Path

import pytest

from hloc.cache_directory import trim_cache
from hloc.codegen.llvm import object_cache
from hloc.codegen.llvm.object_cache import cached_object
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import host_target
from hloc.runtime.routine_fill import fill_cache, fill_directory

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
UNIT = Routines("f", ("declare i32 @f(i32)",), TEXT, 1)


def _object(level: int = 1) -> bytes:
    return cached_object(TEXT, host_target(), level, frozenset())


def test_the_second_time_llvm_is_not_asked(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _object()
    monkeypatch.setattr(object_cache, "compile_in_long_use", None)
    assert _object() == first


def test_other_levels_are_other_files(cache_folder: Path) -> None:
    _object(1)
    _object(2)
    assert len(list(cache_folder.glob("object-*"))) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_not_loaded(cache_folder: Path, damage: str) -> None:
    first = _object()
    (kept,) = cache_folder.glob("object-*")
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    damaged = {"cut": data[:-8], "changed": data, "empty": bytearray()}
    kept.write_bytes(damaged[damage])
    assert _object() == first


def test_an_object_under_the_name_of_another_is_not_loaded(cache_folder: Path) -> None:
    first = _object()
    other = cached_object(TEXT.replace("add", "mul"), host_target(), 1, frozenset())
    assert other != first
    names = sorted(cache_folder.glob("object-*"))
    contents = [name.read_bytes() for name in names]
    for name, swapped in zip(names, reversed(contents), strict=True):
        name.write_bytes(swapped)
    assert _object() == first


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the installation, in which there is nothing yet."""
    folder = tmp_path / "installed"
    monkeypatch.setattr(object_cache, "INSTALLED_FILES", folder)
    return folder


def test_what_was_installed_needs_neither_llvm_nor_the_cache(
    cache_folder: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_directory(installed, host_target(), [UNIT])
    monkeypatch.setattr(object_cache, "compile_in_long_use", None)
    assert _object()[:4] == b"\x7fELF"
    assert not list(cache_folder.glob("object-*"))


def test_what_was_installed_is_checked_too(cache_folder: Path, installed: Path) -> None:
    fill_directory(installed, host_target(), [UNIT])
    (file,) = installed.glob("object-*")
    whole = _object()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert _object() == whole


def test_another_processor_finds_nothing(
    cache_folder: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(host_target(), features="", vector_bits=128)
    fill_directory(installed, other, [UNIT])
    monkeypatch.setattr(object_cache, "compile_in_long_use", lambda *_, **__: b"made")
    assert _object() == b"made"


def test_a_folder_is_filled_once_and_holds_nothing_old(installed: Path) -> None:
    installed.mkdir()
    (installed / "object-0.o").write_bytes(b"of another version")
    (installed / "thesis.o").write_bytes(b"of somebody")
    first = fill_directory(installed, host_target(), [UNIT])
    again = fill_directory(installed, host_target(), [UNIT])
    assert (first.compiled, first.present, again.compiled, again.present) == (1, 0, 0, 1)
    assert sorted(f.name[:7] for f in installed.iterdir()) == ["object-", "routine", "thesis."]
    assert not (installed / "object-0.o").exists()


def test_the_cache_is_filled_with_what_is_not_installed(
    cache_folder: Path, installed: Path
) -> None:
    other = replace(UNIT, source=TEXT.replace("@f", "@g"))
    fill_directory(installed, host_target(), [UNIT])
    filled = fill_cache(host_target(), [UNIT, other])
    assert (filled.compiled, filled.present) == (1, 1)
    assert len(list(cache_folder.glob("object-*"))) == 1


def test_the_cache_stays_small(cache_folder: Path) -> None:
    for i in range(4):
        (cache_folder / f"object-{i}.o").write_bytes(b"x" * 100)
    trim_cache(250)
    assert len(list(cache_folder.iterdir())) == 2


def test_files_of_others_are_never_removed(cache_folder: Path) -> None:
    (cache_folder / "thesis.o").write_bytes(b"x" * 100)
    (cache_folder / "object-1f.o").write_bytes(b"x" * 100)
    trim_cache(0)
    assert [file.name for file in cache_folder.iterdir()] == ["thesis.o"]
