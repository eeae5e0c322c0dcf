"""The C structures of the JAX plug-in, and the translation of its machine code."""

from __future__ import annotations

import ctypes
import re

import pytest

from hloc.codegen.llvm import python_subset
from hloc.pjrt import abi
from hloc.pjrt.machine.load import ENUMS, LISTS, machine, sources


@pytest.mark.parametrize(
    ("name", "size"),
    [  # sizeof in C on 64-bit Linux
        ("PJRT_Extension_Base", 24),
        ("PJRT_Api_Version", 24),
        ("PJRT_NamedValue", 56),
        ("PJRT_Buffer_MemoryLayout_Tiled", 56),
        ("PJRT_Buffer_MemoryLayout", 80),
        ("PJRT_Client_BufferFromHostBuffer_Args", 120),
        ("PJRT_LoadedExecutable_Execute_Args", 80),
        ("PJRT_Buffer_IsDeleted_Args", 32),
    ],
)
def test_sizes_are_those_of_a_c_compiler(name: str, size: int) -> None:
    assert abi.layout(name).size == size


def test_offsets_of_machine_code_are_those_of_ctypes() -> None:
    """Both are made from the same rows, by different rules."""
    names = abi.STRUCTURES.names
    assert len(names) > 120
    for name in names:
        found, expected = abi.layout(name), abi.structure(name)
        assert found.size == ctypes.sizeof(expected), name
        for field, place in found.fields.items():
            assert place.offset == getattr(expected, field).offset, f"{name}.{field}"


def test_the_table_ends_where_the_version_does() -> None:
    """Version 0.90 has 128 functions, as its header lists them."""
    fields = abi.layout("PJRT_Api").fields
    names = [name for name, field in fields.items() if field.type == "void*"]
    assert names[0] == "PJRT_Error_Destroy"
    assert names.index(abi.LAST_FUNCTION) + 1 == 128


def test_every_function_that_destroys_is_machine_code() -> None:
    """Jaxlib calls them after Python is gone."""
    machine_code = machine().addresses.keys()
    kinds = ("Error", "Event", "Buffer", "Executable", "LoadedExecutable", "ExecuteContext")
    assert {f"PJRT_{kind}_Destroy" for kind in (*kinds, "Client")} <= machine_code


def _translated(source: str) -> str:
    return python_subset.translate(source, abi.STRUCTURES)[0]


def test_what_the_subset_lacks_is_refused_with_its_line() -> None:
    with pytest.raises(SyntaxError, match="f, line 2: cannot translate"):
        _translated("def f(x: int) -> int:\n    return [x]\n")


def test_fields_are_loaded_in_their_width() -> None:
    text = _translated("def f(buffer: PJRT_Buffer) -> int:\n    return buffer.deleted\n")
    assert "load i32" in text
    assert "sext i32" in text


def test_machine_code_counts_and_frees() -> None:
    """An event that is set runs what waits for it, with the error."""
    code = machine()
    event = code.function("new_event")()
    structure = abi.structure("PJRT_Event").from_address(event)
    assert structure.state == 0
    assert structure.refs == 1
    message = b"no"
    code.function("complete", 4)(event, 13, ctypes.addressof(ctypes.c_char_p(message)), 0)
    assert structure.state == 1
    error = abi.structure("PJRT_Error").from_address(code.function("error_of", 1)(event))
    assert error.code == 13
    code.function("drop_event", 1)(event)


def test_the_names_read_from_the_sources_are_those_of_the_translation() -> None:
    """`machine()` does not translate what is in the cache, so it finds the names on its own."""
    text, fallbacks = python_subset.translate(sources(), abi.STRUCTURES, lists=LISTS, enums=ENUMS)
    assert list(machine().addresses) == re.findall(r"^define i64 @(\w+)", text, re.MULTILINE)
    assert machine().fallbacks == fallbacks
