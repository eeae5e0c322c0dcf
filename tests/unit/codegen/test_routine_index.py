"""Routines are found without their text, but never those of other sources."""

import os
from pathlib import Path

import pytest

from hloc.cache_directory import cache_directory
from hloc.codegen.cpu.emitters.gemm.packed.gemm_loops import listed_routines
from hloc.codegen.llvm import object_cache, routine_index
from hloc.codegen.llvm.compile_pool import Unit
from hloc.codegen.llvm.object_cache import cached_objects
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.routine_index import index_name, read_index, write_index
from hloc.codegen.llvm.target import host_target
from hloc.runtime.routine_fill import fill_directory

TEXT = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
UNIT = Routines("f", ("declare i32 @f(i32)",), TEXT, 1)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package of two modules, of whose routine there is an index."""
    folder = tmp_path / "package"
    folder.mkdir()
    for name in ("a.py", "b.py"):
        (folder / name).write_text("x = 1\n")
    monkeypatch.setattr(routine_index, "_PACKAGE", folder)
    monkeypatch.setattr(routine_index, "_loaded_files", lambda: ["a.py", "b.py"])
    write_index(tmp_path, "machine", {"f": "object-1.o"})
    read_index.cache_clear()
    return folder


def _read(package: Path) -> dict[str, str]:
    read_index.cache_clear()
    return dict(read_index(package.parent, "machine"))


def test_it_holds_while_the_sources_are_the_same(package: Path) -> None:
    assert _read(package) == {"f": "object-1.o"}


def test_it_holds_for_copies_of_the_sources(package: Path) -> None:
    for file in package.iterdir():
        text = file.read_text()
        file.unlink()
        file.write_text(text)
        os.utime(file, (1, 1))
    assert _read(package) == {"f": "object-1.o"}


def test_it_does_not_hold_once_a_source_was_changed(package: Path) -> None:
    file = package / "b.py"
    before = file.stat()
    file.write_text("x = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as some copying tools do
    assert _read(package) == {}


def test_it_does_not_hold_without_a_source(package: Path) -> None:
    (package / "a.py").unlink()
    assert _read(package) == {}


def test_a_damaged_index_is_none(package: Path) -> None:
    file = package.parent / index_name("machine")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert _read(package) == {}


def test_other_machines_have_their_own(package: Path) -> None:
    assert not read_index(package.parent, "another")


def test_nobody_writes_the_text_of_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise AssertionError("the text was written")

    monkeypatch.setenv("HLOC_CACHE_DIR", "")
    monkeypatch.setattr(object_cache, "INSTALLED_FILES", tmp_path)
    cache_directory.cache_clear()
    fill_directory(tmp_path, host_target(), [UNIT])
    (made,) = cached_objects([Unit(refuse, 1, "f")], host_target(), frozenset()).objects
    cache_directory.cache_clear()
    assert made[:4] == b"\x7fELF"


def test_the_loops_of_products_are_written_when_asked_for() -> None:
    routines = tuple(listed_routines(host_target()))
    assert all(callable(routine.source) for routine in routines)
    assert all(f"@{routine.name}(" in routine.text for routine in routines)
