"""Pausing garbage collection, and what the first collection afterwards visits."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from hloc.collection import collection_paused


@pytest.fixture(autouse=True)
def collection() -> Iterator[None]:
    """Leave garbage collection as it is by default."""
    assert gc.isenabled()
    yield
    gc.unfreeze()
    gc.enable()


def test_collection_is_paused_in_the_block_alone() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_program_that_disabled_collection_keeps_it_disabled() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def _is_young(value: object) -> bool:
    young = gc.get_objects(generation=0)
    return any(entry is value for entry in young)


def _block(monkeypatch: pytest.MonkeyPatch, modules: int) -> list[object]:
    with collection_paused():
        for index in range(modules):
            name = f"made_up_{index}"
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        made: list[object] = [[]]
    return made


def test_objects_of_a_block_that_imports_modules_are_promoted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not _is_young(_block(monkeypatch, 20))
    assert gc.get_freeze_count() == 0


def test_objects_of_other_blocks_are_young() -> None:
    gc.collect()
    with collection_paused():
        made: list[object] = [[]]
        assert _is_young(made)
    assert gc.get_freeze_count() == 0


def test_objects_that_a_program_froze_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[object] = [[]]
    gc.freeze()
    _block(monkeypatch, 20)
    assert not any(entry is frozen for entry in gc.get_objects())
