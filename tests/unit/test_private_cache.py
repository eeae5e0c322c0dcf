"""Nothing is loaded from a cache that another user could have written to."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc import cache_directory
from hloc.cache_directory import (
    read_cached,
    read_file,
    why_no_cache,
    write_cached,
    write_whole,
)
from hloc.cli import main

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")

MODULE = """HloModule m
ENTRY e {
  a = f32[3] parameter(0)
  ROOT r = f32[3] multiply(a, a)
}
"""


@pytest.fixture
def directory(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache_directory, "_WARNED", set())
    return cache_folder


def of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be of another user than the files that are there."""
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)


def test_folder_and_files_are_made_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    monkeypatch.setenv("HLOC_CACHE_DIR", str(tmp_path / "new"))
    old = os.umask(0)
    try:
        write_cached("object-1.o", b"code")
        hloc.compile(MODULE)
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
    assert len(modes) >= 3
    assert set(modes.values()) == {0o600}, modes


def _writable(directory: Path, _patch: pytest.MonkeyPatch) -> None:
    directory.chmod(0o770)


def _sticky(directory: Path, _patch: pytest.MonkeyPatch) -> None:
    directory.chmod(0o1777)  # the cache itself shared, as /tmp is


def _foreign(_directory: Path, patch: pytest.MonkeyPatch) -> None:
    of_another_user(patch)


def _below_an_open_folder(directory: Path, _patch: pytest.MonkeyPatch) -> None:
    directory.parent.chmod(0o777)  # anybody may put another folder in its place


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_writable, r"other users may write to .*cache \(mode 770\)"),
        (_sticky, r"other users may write to .*cache \(mode 1777\)"),
        (_foreign, "belongs to another user"),
        (_below_an_open_folder, "everybody may rename what lies in"),
    ],
)
def test_a_folder_that_others_could_change_is_refused(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    make(directory, monkeypatch)
    with pytest.warns(RuntimeWarning, match=why) as told:
        run = hloc.compile(MODULE)
    assert len(told) == 1, "once, not for each file"
    assert run(np.array([1, 2, 3], np.float32))[0].tolist() == [1, 4, 9], "it works without a cache"
    assert not list(directory.iterdir()), "nothing is written there either"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_cached("object-1.o") is None
    assert main(["cache"]) == 0
    assert "no cache: " in capsys.readouterr().err
    assert main(["cache", "--path"]) == 1


def test_a_private_folder_below_a_sticky_one_is_used(directory: Path) -> None:
    directory.parent.chmod(0o1777)  # as /tmp: only its owner may rename what lies there
    write_cached("object-1.o", b"code")
    assert read_cached("object-1.o") == b"code"
    assert not why_no_cache()


def test_a_link_of_another_user_does_not_lead_to_the_cache(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = directory.parent / "link"
    link.symlink_to(directory)
    monkeypatch.setenv("HLOC_CACHE_DIR", str(link))
    assert not why_no_cache(), "a link of one's own is a choice"
    lstat, other = os.lstat, os.getuid() + 1

    def seen(path: str) -> os.stat_result:
        status = lstat(path)
        fields = list(status)
        fields[4] = other if str(path) == str(link) else fields[4]
        return os.stat_result(fields)

    monkeypatch.setattr(os, "lstat", seen)
    assert "link belongs to another user" in why_no_cache()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _linked(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    (path.parent.parent / "elsewhere").write_bytes(data)
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_linked, "is a link"),
        (lambda path: path.chmod(0o620), r"other users may write to .* \(mode 620\)"),
        (lambda path: path.chmod(0o602), r"other users may write to .* \(mode 602\)"),
        (_pipe, "is no plain file"),
    ],
)
def test_a_file_that_others_could_change_is_not_read(
    directory: Path, make: Callable[[Path], object], why: str
) -> None:
    write_cached("object-1.o", b"code")
    assert read_cached("object-1.o") == b"code"
    make(directory / "object-1.o")
    with pytest.warns(RuntimeWarning, match=f"a cached file is not used: .*{why}"):
        assert read_cached("object-1.o") is None


def test_a_file_of_another_user_is_not_read(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cached("object-1.o", b"code")
    of_another_user(monkeypatch)  # the folder was checked before
    with pytest.warns(RuntimeWarning, match="object-1.o belongs to another user"):
        assert read_cached("object-1.o") is None


def test_programs_of_files_that_are_refused_are_compiled_again(directory: Path) -> None:
    hloc.compile(MODULE)
    elsewhere = directory.parent / "elsewhere"
    elsewhere.mkdir()
    for path in list(directory.iterdir()):
        path.rename(elsewhere / path.name)
        path.symlink_to(elsewhere / path.name)
    with pytest.warns(RuntimeWarning, match="is a link") as told:
        assert hloc.compile(MODULE)(np.array([1, 2, 3], np.float32))[0].tolist() == [1, 4, 9]
    assert len(told) == 1
    program = next(path for path in directory.iterdir() if path.name.startswith("program-"))
    assert not program.is_symlink(), "the new file took the place of the link"
    assert (elsewhere / program.name).stat().st_size, "and was not written through it"


def test_the_mark_of_trimming_is_not_written_through_a_link(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_directory, "_NEXT_LOOK", {})
    target = directory.parent / "target"
    (directory / "trimmed").symlink_to(target)
    cache_directory.trim_cache_daily(1 << 20)
    assert not target.exists()


def test_files_that_came_with_hloc_are_trusted_as_its_sources_are(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_directory, "INSTALLED_FILES", directory)
    write_whole(directory, "object-1.o", b"code")
    assert (directory / "object-1.o").stat().st_mode & 0o777 == 0o644
    assert read_file(directory, "object-1.o") == b"code"
    (directory / "object-1.o").chmod(0o646)
    with pytest.warns(RuntimeWarning, match="other users may write to"):
        assert read_file(directory, "object-1.o") is None
