"""Write `abi_table.py` from the headers of the PJRT C API.

    python -m hloc.pjrt.abi_from_header pjrt_c_api.h pjrt_c_api_{layouts,ffi}_extension.h

prints it. The headers are in XLA's repository, `xla/pjrt/c`. Structures are only extended at their
end there, so the table of a newer header is valid for older callers, too. The table has the
structures that hloc's sources name, and those that these contain or point to.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"struct (\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ENUM = re.compile(r"typedef enum(?:\s+\w+)?\s*\{(.*?)\}\s*(\w+);", re.DOTALL)
_UNION = re.compile(r"union\s*\{([^}]*)\}\s*;")
_API_FIELD = re.compile(r"_PJRT_API_STRUCT_FIELD\(\s*(\w+)\s*\)")
_FUNCTION_POINTER = re.compile(r"\(\s*\*\s*(\w+)\s*\)\s*\(.*\)$")
_PLAIN = re.compile(r"(?:const )?(?:struct )?(.*?)\s*(\w+)$")
_MINOR = re.compile(r"#define PJRT_API_MINOR (\d+)")

HEAD_FIELDS = ("size_t struct_size", "PJRT_Extension_Base* extension_start")
"""The first fields of nearly every structure; the table abbreviates them as three dots."""

_HEAD = '''"""The PJRT C API as data, written by `abi_from_header.py`; not edited by hand."""
'''

_SCALARS = {
    "size_t", "int64_t", "uint64_t", "int32_t", "uint32_t", "uint8_t", "int", "bool", "float",
    "double", "char", "intptr_t", "uintptr_t",
}  # fmt: skip


def main(paths: list[str]) -> str:
    """Return the text of `abi_table.py`."""
    raw = "\n".join(Path(path).read_text() for path in paths)
    text = _COMMENT.sub("", raw).replace("PJRT_NO_DISCARD", "")
    minor = _MINOR.search(raw)
    enums = {name: dict(_members(body)) for body, name in _ENUM.findall(text)}
    known = {*_SCALARS, *(name for name, _ in _STRUCT.findall(text))}
    structs = {name: list(_fields(body, known, enums)) for name, body in _STRUCT.findall(text)}
    structs = {name: structs[name] for name in _used(structs)}
    rows = [*map(_row, structs, structs.values()), *map(_enum_row, enums, enums.values())]
    body = "\n".join(textwrap.fill(row, 98, subsequent_indent="  ") for row in sorted(rows))
    return f"""{_HEAD}
HEADER_MINOR_VERSION = {minor[1] if minor else 0}

TABLE = \"\"\"\\
{body}
\"\"\"
"""


def _used(structs: dict[str, list[str]]) -> set[str]:
    """Return the structures that the sources in this folder name, and those they refer to."""
    sources = Path(__file__).parent.glob("**/*.py")
    text = "".join(path.read_text() for path in sources if path.name != "abi_table.py")
    named = set(re.findall(r"\bPJRT_\w+", text))
    waiting = [
        name
        for name in structs
        if name in named or name.removesuffix("_Args") in named or name.endswith("_Extension")
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in structs and name not in found:
            found.add(name)
            waiting += [field.rpartition(" ")[0].rstrip("*") for field in structs[name]]
    return found


def _row(name: str, fields: list[str]) -> str:
    if tuple(fields[:2]) == HEAD_FIELDS:
        fields = ["...", *fields[2:]]
    return f"struct {name}: {', '.join(fields)}"


def _enum_row(name: str, members: dict[str, int]) -> str:
    items = (f"{key.removeprefix(name).lstrip('_')}={value}" for key, value in members.items())
    return f"enum {name}: {', '.join(items)}"


def _members(body: str) -> Iterator[tuple[str, int]]:
    value = -1
    for item in filter(None, (item.strip() for item in body.split(","))):
        name, _, given = item.partition("=")
        value = _number(given) if given else value + 1
        yield name.strip(), value


def _number(text: str) -> int:
    """Return the value of `7`, `0x10` or `1u << 3`."""
    number, _, shift = text.partition("<<")
    return int(number.strip().rstrip("uUlL"), 0) << int(shift or 0)


def _fields(body: str, known: set[str], enums: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield `type name` per field, the name alone of a pointer to a function; enums are `int`."""
    body = _UNION.sub(lambda union: _largest(union[1]) + ";", body)
    for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
        function = _API_FIELD.match(declaration) or _FUNCTION_POINTER.search(declaration)
        if function:
            yield function[1]
            continue
        found = _PLAIN.match(declaration)
        assert found is not None, declaration
        kind = found[1].replace("const", "").replace(" ", "")
        if kind in enums:
            kind = "int"
        elif "*" not in kind and kind not in known:
            kind = "void*"  # a typedef of a pointer to a function
        yield f"{kind} {found[2]}"


def _largest(union: str) -> str:
    """Return the member that covers the union: a structure, else a pointer."""
    members = [" ".join(m.split()) for m in union.split(";") if m.strip()]
    return next((m for m in members if m.startswith("PJRT_") and "*" not in m), members[0])


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
