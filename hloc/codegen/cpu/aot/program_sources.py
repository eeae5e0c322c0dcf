"""C sources of a program that runs a module on .npy files; `program/` holds the common part."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from hloc.codegen.cpu.aot.interface import CArray, Interface
from hloc.codegen.cpu.aot.names import comment
from hloc.dtypes import DType, component_of
from hloc.errors import UnsupportedError
from hloc.shapes import ArrayShape

_SHARED = ("program.h", "fault.c", "arrays.c", "npy.c", "main.c")
_MAX_RANK = 64
_NUMPY_FLOATS = ("f16", "f32", "f64")


def program_sources(interface: Interface) -> dict[str, str]:
    """Return name -> text of all files; those that end in .c are compiled with the object.

    Raises:
        UnsupportedError: an array has more dimensions than NumPy can have.
    """
    for array in (*interface.arguments, *interface.results):
        if array.shape.rank > _MAX_RANK:
            raise UnsupportedError(
                f"{array.name} has {array.shape.rank} dimensions, "
                f"and .npy files have at most {_MAX_RANK}"
            )
    folder = files("hloc.codegen.cpu.aot") / "program"
    texts = {name: (folder / name).read_text("utf-8") for name in _SHARED}
    texts["table.c"] = "\n".join(_table(interface)) + "\n"
    return texts


def _table(interface: Interface) -> Iterator[str]:
    """Yield the lines of `table.c`.

    It declares the functions that it calls and does not include the header, whose inline function
    may have any name.
    """
    prefix = interface.prefix
    yield '#include "program.h"'
    yield f"int {prefix}_run(const void *const *inputs, void *const *outputs, void *temp);"
    for array in (*interface.arguments, *interface.results):
        if array.shape.rank:
            order = ", ".join(map(str, reversed(array.shape.minor_to_major)))
            dims = ", ".join(map(str, array.shape.dims))
            yield f"static const size_t dims_{array.name}[] = {{{dims}}};"
            yield f"static const int order_{array.name}[] = {{{order}}};"
    for kind, arrays in (("argument", interface.arguments), ("result", interface.results)):
        if arrays:
            yield f"static const array_t {kind}s[] = {{"
            yield from map(_row, arrays)
            yield "};"
    if interface.variants:
        yield f"int {prefix}_variant(void);"
        names = ", ".join(map(_string, interface.variants))
        yield f"static const char *const variants[] = {{{names}}};"
        yield "static const char *variant(void) {"
        yield f"  const int number = {prefix}_variant();"
        yield '  return number < 0 ? "none" : variants[number];'
        yield "}"
    arguments = "arguments" if interface.arguments else "NULL"
    results = "results" if interface.results else "NULL"
    yield "const program_t program = {"
    yield f"  {_string(interface.module_name)}, {_string(interface.machine)},"
    yield f"  {len(interface.arguments)}, {len(interface.results)}, {arguments}, {results},"
    yield f"  {interface.temp_bytes}, {interface.alignment},"
    yield f"  {prefix}_run, {'variant' if interface.variants else 'NULL'},"
    yield "};"


def _row(array: CArray) -> str:
    shape, dtype = array.shape, array.shape.dtype
    parts = component_of(dtype)
    pointers = (f"dims_{array.name}", f"order_{array.name}") if shape.rank else ("NULL", "NULL")
    values = (
        *(_string(array.name), _string(_shape_text(shape)), _string(array.note)),
        _kind(dtype),
        *map(str, (dtype.bits, parts.exponent_bits, parts.mantissa_bits, dtype.storage_bytes)),
        str(shape.rank),
        *pointers,
    )
    return f"  {{{', '.join(values)}}},"


def _shape_text(shape: ArrayShape) -> str:
    return shape.text_without_layout if shape.layout is None else str(shape)


def _kind(dtype: DType) -> str:
    if dtype.is_pred:
        return "PRED"
    if dtype.is_integer:
        return "SIGNED" if dtype.is_signed else "UNSIGNED"
    if dtype.is_complex:
        return "COMPLEX"
    return "FLOAT" if dtype.name in _NUMPY_FLOATS else "NARROW"


def _string(text: str) -> str:
    return '"' + comment(text).replace('"', '\\"') + '"'
