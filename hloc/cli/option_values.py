"""Converters from the text of an option's value, for the rows of `options.py`.

Each raises ValueError that says what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hloc.lazy_dataclass import dataclass
from hloc.near_names import did_you_mean

EMIT_KINDS = (
    "hlo",
    "schedule",
    "buffers",
    "llvm-ir",
    "llvm-ir-opt",
    "asm",
    "obj",
    "header",
    "shared",
    "exe",
    "html",
    "svg",
    "dot",
)


_MOST_SHOWN = 60


def _shown(text: str) -> str:
    """Return a value as messages show it, truncated if long."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Takes one of `choices`."""

    choices: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Return `text`."""
        if text not in self.choices:
            hint = did_you_mean(text, self.choices)
            known = ", ".join(self.choices)
            raise ValueError(f"expected one of {known}, found {_shown(text)}{hint}")
        return text


@dataclass(frozen=True, slots=True)
class ListOf:
    """Takes a comma-separated list of `choices`."""

    choices: tuple[str, ...]

    def __call__(self, text: str) -> tuple[str, ...]:
        """Return the parts of `text`, each once."""
        one = OneOf(self.choices)
        return tuple(dict.fromkeys(one(part.strip()) for part in text.split(",")))


def emit_kinds(text: str) -> tuple[str, ...]:
    """Read a list of `EMIT_KINDS` and of stages that installed backends have."""
    known: tuple[str, ...] = EMIT_KINDS
    if {part.strip() for part in text.split(",")} - {*EMIT_KINDS}:
        from hloc.codegen.backend import stage_names

        known = tuple(dict.fromkeys((*EMIT_KINDS, *stage_names())))
    return ListOf(known)(text)


def names(text: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def one(text: str) -> tuple[str, ...]:
    """Take one value of an option that may be repeated."""
    return (text,)


def processors(text: str) -> str:
    """Take names of processors, each once; v2, v3 and v4 are levels of x86-64."""
    found = dict.fromkeys(f"x86-64-{n}" if n in ("v2", "v3", "v4") else n for n in names(text))
    if not found:
        raise ValueError("expected the name of a processor; `hloc targets NAME` lists them")
    return ",".join(found)


_MOST_DIGITS = 18
"""Most digits of a number on the command line, so that it fits into 64 bits."""


def count(least: int) -> Callable[[str], int]:
    """Return a converter for a whole number of at least `least`."""

    def convert(text: str) -> int:
        is_number = text.isascii() and text.isdigit()
        if is_number and len(text) > _MOST_DIGITS:
            raise ValueError(f"expected at most {_MOST_DIGITS} digits, found {len(text)}")
        if not is_number or int(text) < least:
            raise ValueError(f"expected a whole number, {least} or more, found {_shown(text)}")
        return int(text)

    return convert


def byte_count(text: str) -> int:
    """Read `4096`, `64K`, `1.5G`: a number of bytes above 0, with a unit of powers of 1024."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    digits = number.replace(".", "", 1)
    if unit not in ("", "K", "M", "G", "T") or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"expected bytes such as 4096, 64K or 1.5G, found {_shown(text)}")
    size = float(number) * 1024 ** ("KMGT".index(unit) + 1 if unit else 0)
    if not 1 <= size < 1 << 62:
        raise ValueError(
            f"expected a number of bytes above 0 and below 2**62, found {_shown(text)}"
        )
    return int(size)


def drawing(text: str) -> str:
    """Take the name of an SVG file, or nothing."""
    if text and not text.lower().endswith(".svg"):
        raise ValueError(f"expected the name of a file that ends in .svg, found {_shown(text)}")
    return text


def page_file(text: str) -> str:
    """Take the name of an HTML file."""
    if not text.lower().endswith((".html", ".htm")):
        raise ValueError(f"expected the name of a file that ends in .html, found {_shown(text)}")
    return text


def input_spec(text: str) -> tuple[tuple[str, str], ...]:
    """Read `x=normal(0,1)`: the name of a parameter, and its value."""
    name, equals, spec = text.partition("=")
    if not equals or not name.strip() or not spec.strip():
        raise ValueError(f"expected NAME=SPEC such as x=normal(0,1), found {_shown(text)}")
    return ((name.strip(), spec.strip()),)


_MOST_AXES = 16


def mesh_axes(text: str) -> tuple[tuple[str, int], ...]:
    """Read `x=4,y=2` or `4,2`, whose axes are called axis_0 and axis_1."""
    axes = []
    for number, part in enumerate(text.split(",")):
        name, has_name, size = part.rpartition("=")
        name = name.strip() if has_name else f"axis_{number}"
        size = size.strip()
        if not (size.isascii() and size.isdigit() and len(size) < 8 and int(size)) or not name:
            raise ValueError(f"expected a mesh such as x=4,y=2 or 4,2, found {_shown(text)}")
        axes.append((name, int(size)))
    if len({name for name, _ in axes}) != len(axes) or len(axes) > _MOST_AXES:
        raise ValueError(f"expected up to {_MOST_AXES} axes of different names")
    return tuple(axes)


def pipeline(text: str) -> str:
    """Take the text of a pipeline; names are looked up later, when the passes are loaded."""
    if not text.strip():
        raise ValueError("expected names of passes, found nothing; `hloc passes` lists them")
    return text


def tolerance(text: str) -> float:
    """Read a bound of a comparison: a finite number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise ValueError(f"expected a number that is not negative, found {_shown(text)}")
    return value


def regex(text: str) -> str:
    """Read a regular expression, which is kept as text."""
    try:
        re.compile(text)
    except re.error as fault:
        raise ValueError(f"expected a regular expression, found {_shown(text)}: {fault}") from None
    return text
