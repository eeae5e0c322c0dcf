"""The C header of a module compiled ahead of time, and the C++ class on top of it."""

from __future__ import annotations

from collections.abc import Iterator

from hloc.codegen.cpu.aot.interface import CArray, Interface
from hloc.codegen.cpu.aot.names import comment
from hloc.codegen.cpu.aot.parallel import parallel_declaration
from hloc.codegen.cpu.aot.variants import symbol_of
from hloc.codegen.cpu.aot.wrapper import BAD_ARRAYS, BAD_PROCESSOR, BAD_TEMP


def c_header(interface: Interface) -> str:
    """Return the header for C99 and later, and for C++."""
    upper = interface.prefix.upper()
    lines = [
        f"/* HLO module {comment(interface.module_name)}, compiled ahead of time by hloc.",
        f" * Target: {comment(interface.machine)}.",
        " *",
        *_contract(interface),
        " */",
        f"#ifndef HLOC_{upper}_H",
        f"#define HLOC_{upper}_H",
        "",
        "#include <limits.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        f"#define {upper}_INPUTS {len(interface.arguments)}",
        f"#define {upper}_OUTPUTS {len(interface.results)}",
        "/* Working memory of one call, in bytes, and what its address is a multiple of. */",
        f"#define {upper}_TEMP_BYTES {_size(interface.temp_bytes)}",
        f"#define {upper}_ALIGNMENT {interface.alignment}",
        f"#define {upper}_CONSTANT_BYTES {_size(interface.constant_bytes)}",
        "",
        *(line for array in _arrays(interface) for line in _macros(upper, array)),
        *_asserts(interface, upper),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"/* Runs the module on {upper}_INPUTS arrays. Returns 0, or {BAD_TEMP} if temp is null or",
        f" * not aligned, or {BAD_ARRAYS} if a list of arrays is null; nothing is written then. */",
        f"int {interface.prefix}_run(const void *const *inputs, void *const *outputs, void *temp);",
        "",
        *parallel_declaration(interface),
        *_variants(interface),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "/* The same with one typed argument per array. */",
        *_typed_function(interface),
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def cpp_header(interface: Interface, c_name: str) -> str:
    """Return a header with a class that has its own working memory; `c_name` is the C header."""
    upper, name = interface.prefix.upper(), interface.prefix
    parameters = _parameters(interface)[:-1]
    values = ", ".join([*(a.name for a in _arrays(interface)), "memory()"])
    lines = [
        f"// HLO module {comment(interface.module_name)}, compiled ahead of time by hloc.",
        f"#ifndef HLOC_{upper}_HPP",
        f"#define HLOC_{upper}_HPP",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <vector>",
        "",
        f'#include "{c_name}"',
        "",
        "// Working memory and the call. One object serves one thread at a time.",
        f"class {name}_model {{",
        "public:",
        f"  {name}_model() : bytes_({upper}_TEMP_BYTES + {upper}_ALIGNMENT) {{}}",
        "",
        "  // Returns 0; see the C header.",
        f"  int operator()({', '.join(parameters)}) {{",
        f"    return {name}({values});",
        "  }",
        "",
        "private:",
        "  void *memory() {",
        "    auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());",
        f"    return bytes_.data() + ({upper}_ALIGNMENT - address % {upper}_ALIGNMENT)"
        f" % {upper}_ALIGNMENT;",
        "  }",
        "",
        "  std::vector<unsigned char> bytes_;",
        "};",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _arrays(interface: Interface) -> tuple[CArray, ...]:
    return (*interface.arguments, *interface.results)


def _contract(interface: Interface) -> Iterator[str]:
    """Yield the comment on what a caller must and may do: threads, memory, overlap, types."""
    if interface.static_temp:
        yield " * The object has its own working memory: one thread at a time may call. temp is"
        yield " * not looked at and may be null."
    else:
        state = "no state but the choice of code" if interface.variants else "no state"
        yield f" * There is {state}: threads may call at once, each with its own temp and outputs."
    yield " * Nothing is allocated. Arrays are dense, the last dimension fastest unless a layout is"
    yield " * named, and aligned as their element type. Inputs are not written. Outputs overlap"
    yield " * neither each other nor temp nor inputs."
    shared = [a for a in interface.results if a.shares is not None]
    if shared:
        pairs = ", ".join(f"{a.name} and arg{a.shares}" for a in shared)
        yield " * One exception: all of these pairs, or none, may be one array each, which is then"
        yield f" * overwritten: {pairs}."
    yield " * pred is a byte of 0 or 1; complex numbers are two values; f16, bf16 and narrower"
    yield " * floats are their bits in an unsigned integer; integers below a byte are the low bits"
    yield " * of one, the others are 0."


def _variants(interface: Interface) -> Iterator[str]:
    """Yield the further declarations of an object for several processors."""
    if not interface.variants:
        return
    prefix, upper = interface.prefix, interface.prefix.upper()
    names = ", ".join(f'"{level}"' for level in interface.variants)
    yield f"/* There is code for several processors, and {prefix}_run takes the best that this one"
    yield f" * can run, or returns {BAD_PROCESSOR} if there is none. The first call asks the"
    yield " * processor and keeps the answer in one word; threads may do so at once. */"
    yield f"#define {upper}_VARIANTS {len(interface.variants)}"
    yield f"#define {upper}_VARIANT_NAMES {{{names}}}"
    yield f"/* Which of {upper}_VARIANT_NAMES is taken: 0 for the first, -1 for none. */"
    yield f"int {prefix}_variant(void);"
    yield "/* The code for one processor, whatever this one is; a processor that lacks an"
    yield " * instruction ends the program. */"
    for level in interface.variants:
        yield f"int {prefix}_run_{symbol_of(level)}("
        yield "    const void *const *inputs, void *const *outputs, void *temp);"
    yield ""


def _macros(upper: str, array: CArray) -> Iterator[str]:
    head = f"{upper}_{array.name.upper()}"
    shape = array.shape
    note = f", {array.note}" if array.note else ""
    yield f"/* {array.name}: {comment(str(shape) + note)} */"
    yield f"#define {head}_TYPE {array.c_type}"
    yield f'#define {head}_DTYPE "{shape.dtype.name}"'
    yield f"#define {head}_ELEMENTS {_size(shape.elements)}"
    yield f"#define {head}_BYTES {_size(shape.size_bytes)}"
    yield f"#define {head}_RANK {shape.rank}"
    if shape.rank:
        yield f"#define {head}_DIMS {{{', '.join(map(_size, shape.dims))}}}"
    for dim, size in enumerate(shape.dims):
        yield f"#define {head}_DIM{dim} {_size(size)}"
    yield ""


def _size(size: int) -> str:
    return f"{size}ull" if size >= 1 << 31 else str(size)


def _asserts(interface: Interface, upper: str) -> Iterator[str]:
    """Yield static assertions that the C compiler's types have the sizes the object was built for.

    Three forms of the macro: C++11, C11, and an array of negative length for older compilers.
    """
    yield "#if defined(__cplusplus) && __cplusplus >= 201103L"
    yield f"#define {upper}_ASSERT(what, text) static_assert(what, text)"
    yield "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L"
    yield f"#define {upper}_ASSERT(what, text) _Static_assert(what, text)"
    yield "#else"
    name = f"{interface.prefix}_assert[(what) ? 1 : -1]"
    yield f"#define {upper}_ASSERT(what, text) extern int {name}"
    yield "#endif"
    pointer = interface.pointer_bits // 8
    yield f'{upper}_ASSERT(CHAR_BIT == 8, "bytes have 8 bits");'
    yield f'{upper}_ASSERT(sizeof(void *) == {pointer}, "the object is for another machine");'
    for c_type in dict.fromkeys(array.c_type for array in _arrays(interface)):
        dtype = next(a.shape.dtype for a in _arrays(interface) if a.c_type == c_type)
        component = dtype.storage_bytes // (2 if dtype.is_complex else 1)
        yield f'{upper}_ASSERT(sizeof({c_type}) == {component}, "size of {c_type}");'
    for array in _arrays(interface):
        if array.shape.size_bytes < 1 << 31:
            head = f"{upper}_{array.name.upper()}"
            per = 2 if array.shape.dtype.is_complex else 1
            yield (
                f"{upper}_ASSERT({head}_BYTES == {head}_ELEMENTS * {per} * sizeof({array.c_type}), "
                f'"bytes of {array.name}");'
            )
    yield f"#undef {upper}_ASSERT"


def _parameters(interface: Interface) -> list[str]:
    return [
        *(f"const {a.c_type} *{a.name}" for a in interface.arguments),
        *(f"{a.c_type} *{a.name}" for a in interface.results),
        "void *temp",
    ]


def _typed_function(interface: Interface) -> Iterator[str]:
    """Yield an inline function with one typed pointer per array, which calls `PREFIX_run`."""
    name = interface.prefix
    yield f"static inline int {name}("
    yield "    " + ",\n    ".join(_parameters(interface)) + ") {"
    lists = (
        ("const void *inputs", "inputs", interface.arguments),
        ("void *outputs", "outputs", interface.results),
    )
    given = []
    for declared, variable, arrays in lists:
        if arrays:
            yield f"  {declared}[{len(arrays)}];"
        given.append(variable if arrays else "NULL")
    for _, variable, arrays in lists:
        for i, array in enumerate(arrays):
            yield f"  {variable}[{i}] = {array.name};"
    yield f"  return {name}_run({given[0]}, {given[1]}, temp);"
    yield "}"
