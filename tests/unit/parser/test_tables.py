"""The kept LALR tables: the same values from them, and never trust in a file that is not ours."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hloc.cache_directory import cache_directory, unsealed
from hloc.parser import tables
from hloc.parser.shape_values import array_of
from hloc.parser.table_fill import PARSERS, fill_tables
from hloc.parser.value_grammar import STARTS, _ToValue


@pytest.fixture
def directory(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "INSTALLED_FILES", cache_folder / "none")
    return cache_folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The name and the bytes of the file that a new parser leaves: made once, which takes long."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HLOC_CACHE_DIR", str(folder))
        patch.setattr(tables, "INSTALLED_FILES", folder / "none")
        cache_directory.cache_clear()
        _shape_by_a_new_parser()
    cache_directory.cache_clear()
    (file,) = folder.iterdir()
    return file.name, file.read_bytes()


def _shape_by_a_new_parser() -> object:
    parser = tables.make_parser(STARTS, "contextual", _ToValue())
    return parser.parse("f32[2,3]{0,1}", start="shape")


def test_kept_tables_give_the_same_values(directory: Path) -> None:
    made = _shape_by_a_new_parser()
    assert len(list(directory.iterdir())) == 1
    assert _shape_by_a_new_parser() == made == array_of("f32[2,3]{0,1}")


_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut short": lambda data: data[:-1],
    "not sealed": lambda data: data[32:],
    "another state": lambda data: re.sub(rb"\[0, \d+\]", b"[0, 99999]", data, count=1),
    "foreign": lambda _: b'[{"parser": {}}, {}]',
}


@pytest.mark.parametrize("kind", _DAMAGE)
def test_a_damaged_file_is_made_again(kept: tuple[str, bytes], directory: Path, kind: str) -> None:
    name, whole = kept
    damaged = _DAMAGE[kind](whole)
    assert damaged != whole
    (directory / name).write_bytes(damaged)
    assert _shape_by_a_new_parser() == array_of("f32[2,3]{0,1}")
    again = (directory / name).read_bytes()
    assert unsealed(name, again) is not None


def test_a_table_with_another_number_is_made_again(
    kept: tuple[str, bytes], directory: Path
) -> None:
    """It was believed, and failed inside Lark on texts that went through the changed place."""
    name, made = kept
    place = made.rindex(b"3")
    changed = made[:place] + b"4" + made[place + 1 :]
    (directory / name).write_bytes(changed)
    _shape_by_a_new_parser()
    assert (directory / name).read_bytes() != changed


def test_a_directory_that_others_may_write_to_is_not_used(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hloc.cache_directory._WARNED", set())
    directory.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="the cache is not used: other users may write"):
        assert cache_directory() is None
    assert _shape_by_a_new_parser() is not None
    assert not list(directory.iterdir())


def test_no_directory_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOC_CACHE_DIR", "")
    cache_directory.cache_clear()
    assert cache_directory() is None
    cache_directory.cache_clear()


def test_tables_of_the_installation_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_tables(tmp_path)
    monkeypatch.setattr(tables, "INSTALLED_FILES", tmp_path)
    monkeypatch.setattr(tables, "made_tables", None)  # nothing is made
    assert _shape_by_a_new_parser() == array_of("f32[2,3]{0,1}")


def test_a_folder_holds_no_old_tables(tmp_path: Path) -> None:
    (tmp_path / "grammar-0123.bin").write_bytes(b"{}")
    fill_tables(tmp_path)
    assert len(list(tmp_path.iterdir())) == len(PARSERS)
    assert not (tmp_path / "grammar-0123.bin").exists()
