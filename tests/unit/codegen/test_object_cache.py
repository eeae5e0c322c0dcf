"""Objects are made once, and never taken from a damaged file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hloc.cache_directory import cache_directory, trim_cache
from hloc.codegen import object_cache
from hloc.codegen.object_cache import cached_object
from hloc.codegen.target import host_target

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HLOC_CACHE_DIR", str(tmp_path))
    cache_directory.cache_clear()
    yield tmp_path
    cache_directory.cache_clear()


def _object(level: int = 1) -> bytes:
    return cached_object(TEXT, host_target(), level, frozenset())


def test_the_second_time_llvm_is_not_asked(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _object()
    monkeypatch.setattr(object_cache, "compile_object", None)
    assert _object() == first


def test_other_levels_are_other_files(directory: Path) -> None:
    _object(1)
    _object(2)
    assert len(list(directory.glob("object-*"))) == 2


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_file_is_not_loaded(directory: Path, damage: str) -> None:
    first = _object()
    (kept,) = directory.glob("object-*")
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    damaged = {"cut": data[:-8], "changed": data, "empty": bytearray()}
    kept.write_bytes(damaged[damage])
    assert _object() == first


def test_the_cache_stays_small(directory: Path) -> None:
    for i in range(4):
        (directory / f"object-{i}.o").write_bytes(b"x" * 100)
    trim_cache(250)
    assert len(list(directory.iterdir())) == 2


def test_files_of_others_are_never_removed(directory: Path) -> None:
    (directory / "thesis.o").write_bytes(b"x" * 100)
    (directory / "object-1f.o").write_bytes(b"x" * 100)
    trim_cache(0)
    assert [file.name for file in directory.iterdir()] == ["thesis.o"]
