"""A program with one changed function compiles that function only, and never takes wrong code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hloc.codegen.llvm import function_index, object_cache
from hloc.codegen.llvm.compile_pool import Function, function_units
from hloc.codegen.llvm.object_cache import MachineCode, cached_objects
from hloc.codegen.llvm.object_child import compile_in_long_use
from hloc.codegen.llvm.object_file import ALLOWED_SYMBOLS
from hloc.codegen.llvm.target import host_target
from hloc.runtime.cpu_loader import load_functions

LEVEL = 1


@pytest.fixture(autouse=True)
def _all_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of a test compile in no time."""
    monkeypatch.setattr(object_cache, "_LEAST_INDEXED_SECONDS", 0)


@pytest.fixture
def compiled(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty cache, and the list of texts that LLVM compiles."""
    texts: list[str] = []
    real = compile_in_long_use

    def compile_and_note(text: str, *rest: object, **more: object) -> bytes:
        texts.append(text)
        return real(text, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(object_cache, "compile_in_long_use", compile_and_note)
    return texts


def _function(number: int, name: str = "", calls: str = "") -> Function:
    """Return a function that adds `number`, by another function if `calls` names one."""
    name = name or f"f{number}"
    add = f"call i32 @{calls}(i32 %x)" if calls else f"add i32 %x, {number}"
    text = f"define i32 @{name}(i32 %x) {{\n  %y = {add}\n  ret i32 %y\n}}\n"
    declarations = (f"declare i32 @{calls}(i32)",) if calls else ()
    return Function(name, text, declarations, (calls,) if calls else ())


def _functions(*numbers: int) -> list[Function]:
    return [_function(number) for number in numbers]


def _code(functions: Sequence[Function], level: int = LEVEL) -> MachineCode:
    symbols = frozenset(f.name for f in functions)
    return cached_objects(function_units(functions, level), host_target(), symbols)


def _results(code: MachineCode, names: Sequence[str]) -> list[int]:
    loaded = load_functions(code.objects, host_target(), names, ALLOWED_SYMBOLS)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    return [call(address)(100) for address in loaded.addresses]


def _is_right(code: MachineCode, numbers: Sequence[int]) -> bool:
    return _results(code, [f"f{n}" for n in numbers]) == [100 + n for n in numbers]


def _names(text: str) -> list[str]:
    return [line.split("@")[1].split("(")[0] for line in text.splitlines() if "define" in line]


def test_only_a_changed_function_is_compiled(compiled: list[str]) -> None:
    first = _code(_functions(*range(40)))
    assert (first.functions, first.kept, len(compiled)) == (40, 0, 2)
    compiled.clear()
    numbers = [*range(17), 50, *range(18, 40)]
    second = _code(_functions(*numbers))
    assert [_names(text) for text in compiled] == [["f50"]]
    assert (second.functions, second.kept) == (40, 39)
    assert _is_right(second, numbers)


def test_functions_may_move_between_units(compiled: list[str]) -> None:
    _code(_functions(*range(70)))
    compiled.clear()
    numbers = [*range(90, 95), *range(70)]
    code = _code(_functions(*numbers))
    assert [_names(text) for text in compiled] == [[f"f{n}" for n in range(90, 95)]]
    assert _is_right(code, numbers)


def test_a_change_of_a_change_finds_both(compiled: list[str]) -> None:
    _code(_functions(*range(8)))
    _code(_functions(*range(7), 20))
    compiled.clear()
    numbers = [30, *range(1, 7), 20]
    assert _is_right(_code(_functions(*numbers)), numbers)
    assert [_names(text) for text in compiled] == [["f30"]]


def test_the_same_program_needs_no_index(compiled: list[str], cache_folder: Path) -> None:
    first = _code(_functions(*range(8)))
    for index in cache_folder.glob("index-*"):
        index.unlink()
    compiled.clear()
    second = _code(_functions(*range(8)))
    assert (second.kept, second.objects) == (8, first.objects)
    assert not compiled


@pytest.mark.parametrize("change", ["level", "declarations", "text"])
def test_other_code_is_compiled(compiled: list[str], change: str) -> None:
    """A function of the same name that differs in anything is never taken."""
    _code(_functions(*range(8)))
    compiled.clear()
    functions, level = _functions(*range(4), *range(10, 15)), LEVEL
    if change == "level":
        level = 2
    elif change == "declarations":
        constant = "@c = private constant i32 7"
        functions = [Function(f.name, f.text, (constant,)) for f in functions]
    else:
        functions = [Function(f.name, f.text.replace("%y", "%z")) for f in functions]
    code = _code(functions, level)
    assert (code.kept, len(compiled)) == (0, 1)


def test_an_object_that_defines_a_symbol_of_the_program_otherwise_is_not_taken(
    compiled: list[str],
) -> None:
    _code(_functions(*range(8)))
    changed = [_function(9, "f0"), *_functions(*range(1, 8))]
    code = _code(changed)
    assert code.kept == 0
    assert _results(code, ["f0", "f1"]) == [109, 101]


def test_two_objects_with_one_function_are_not_both_taken(compiled: list[str]) -> None:
    _code(_functions(1, 2, 3))
    _code(_functions(3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
    compiled.clear()
    code = _code(_functions(1, 2, 3, 16, 17))
    assert _is_right(code, [1, 2, 3, 16, 17])
    assert _names(compiled[0]) == ["f16", "f17"]


def test_an_object_of_which_little_is_wanted_is_not_loaded(compiled: list[str]) -> None:
    _code(_functions(*range(32)))
    compiled.clear()
    code = _code(_functions(0, 1, 2, 3, 40))
    assert _names(compiled[0]) == ["f0", "f1", "f2", "f3", "f40"]
    assert code.kept == 0


def _calling(number: int) -> MachineCode:
    """Return the code of a function, and of one that calls a helper in another unit."""
    helper, calling = _function(7, "helper"), _function(7, "calling", "helper")
    together = [calling, _function(number)]
    symbols = frozenset({"helper", *(f.name for f in together)})
    units = [*function_units(together, 1), *function_units([helper], 2)]
    return cached_objects(units, host_target(), symbols)


def test_an_object_that_needs_what_the_program_lacks_is_not_loaded(compiled: list[str]) -> None:
    _calling(1)
    code = _code(_functions(1, 2))
    assert code.kept == 0
    assert _is_right(code, [1, 2])


def test_what_an_object_needs_may_be_in_another_unit(compiled: list[str]) -> None:
    _calling(1)
    compiled.clear()
    code = _calling(2)
    assert [_names(text) for text in compiled] == [["f2"]]
    assert _results(code, ["calling", "f2"]) == [107, 102]


@pytest.mark.parametrize("kind", ["index", "object"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone"])
def test_a_damaged_file_costs_time_only(
    compiled: list[str], cache_folder: Path, kind: str, damage: str
) -> None:
    _code(_functions(*range(8)))
    (file,) = cache_folder.glob(f"{kind}-*")
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    damaged = {"cut": data[:-8], "changed": data, "empty": bytearray()}
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(damaged[damage])
    numbers = [*range(7), 20]
    code = _code(_functions(*numbers))
    assert code.kept == 0
    assert _is_right(code, numbers)
    again = _code(_functions(*range(1, 7), 20, 30))
    assert again.kept == 7


def test_the_index_of_another_machine_is_not_read(compiled: list[str], cache_folder: Path) -> None:
    _code(_functions(*range(8)))
    (index,) = cache_folder.glob("index-*")
    index.rename(cache_folder / f"index-{'0' * 40}.bin")
    assert _code(_functions(*range(7), 20)).kept == 0


def test_without_a_cache_all_is_compiled(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hloc.cache_directory import cache_directory

    monkeypatch.setenv("HLOC_CACHE_DIR", "")
    cache_directory.cache_clear()
    _code(_functions(*range(8)))
    assert _code(_functions(*range(8))).kept == 0
    assert _is_right(_code(_functions(*range(8))), range(8))


def test_a_folder_that_cannot_be_written_is_read(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    _code(_functions(*range(8)))
    before = sorted(cache_folder.iterdir())
    monkeypatch.setattr("hloc.cache_directory.write_whole", refuse)
    for _ in range(2):
        numbers = [*range(7), 20]
        code = _code(_functions(*numbers))
        assert code.kept == 7
        assert _is_right(code, numbers)
    assert sorted(cache_folder.iterdir()) == before


def test_the_index_forgets_the_oldest(
    compiled: list[str], cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_index, "_MOST_BYTES", 1000)
    for first in range(0, 100, 4):
        _code(_functions(*range(first, first + 4)))
    assert _code(_functions(*range(4), 200)).kept == 0
    assert _code(_functions(*range(96, 100), 201)).kept == 4
    (index,) = cache_folder.glob("index-*")
    assert index.stat().st_size < 1100


def test_programs_may_be_compiled_at_the_same_time(compiled: list[str]) -> None:
    def compile_some(first: int) -> bool:
        numbers = [*range(first, first + 6), *range(100, 106)]
        return _is_right(_code(_functions(*numbers)), numbers)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(compile_some, [0, 6, 0, 12, 6, 3, 9, 1]))
    assert _code(_functions(*range(3, 9), *range(100, 106))).kept >= 6


def test_short_programs_have_no_index(
    compiled: list[str], cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_cache, "_LEAST_INDEXED_SECONDS", 1)
    _code(_functions(*range(8)))
    assert _code(_functions(*range(7), 20)).kept == 0
    assert not list(cache_folder.glob("index-*"))
