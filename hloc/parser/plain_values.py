"""Attribute values in the spelling that XLA prints, read without the grammar.

Each function returns the value that the grammar gives, or None for a text that it leaves to the
grammar: other spellings, and everything that has a fault. The first text that Lark reads costs a
millisecond, for the tables of its lexer; that is as much as all else of reading a small module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloc.ir.attributes import (
    ConvolutionDimensions,
    PaddingDimension,
    RawText,
    SliceDimension,
    Window,
)
from hloc.parser.common_values import plain_aliases, plain_metadata
from hloc.parser.opcode_values import (
    WINDOW_FIELDS,
    convolution_dimensions,
    padding_of,
    window_of,
)
from hloc.parser.value_tools import index_text

_MAX_DIGITS = 18
"""Numbers of so many digits fit in 64 bits."""

_TRUTHS = {"true": True, "false": False}


def _is_number(text: str) -> bool:
    """True for `0`, `12`: digits without a sign, few enough to fit in 64 bits."""
    return text.isdecimal() and len(text) <= _MAX_DIGITS and text.isascii()


def _is_padding(text: str) -> bool:
    """True for `0_1`, `-1_2`, and with what stands between elements, `0_1_2`."""
    low, _, rest = text.partition("_")
    high, has_interior, interior = rest.partition("_")
    return (
        _is_number(low.removeprefix("-"))
        and _is_number(high.removeprefix("-"))
        and (_is_number(interior) or not has_interior)
    )


def _inside(text: str, opening: str, closing: str) -> str | None:
    """Return what stands between `opening` and `closing`, None if `text` is something else."""
    if len(text) < len(opening) + len(closing):
        return None
    if not (text.startswith(opening) and text.endswith(closing)):
        return None
    return text[len(opening) : len(text) - len(closing)]


def plain_int_list(text: str) -> tuple[int, ...] | None:
    """Read `{0,1,2}` or `{}`."""
    inside = _inside(text, "{", "}")
    if inside is None:
        return None
    numbers = inside.split(",") if inside else []
    return tuple(map(int, numbers)) if all(map(_is_number, numbers)) else None


def plain_slice(text: str) -> tuple[SliceDimension, ...] | None:
    """Read `{[0:8], [0:32:2]}`."""
    inside = _inside(text, "{[", "]}")
    if inside is None:
        return None
    found = []
    for part in inside.split("], ["):
        numbers = part.split(":")
        if len(numbers) not in (2, 3) or not all(map(_is_number, numbers)):
            return None
        found.append(SliceDimension(*map(int, numbers)))
    return tuple(found)


def plain_padding(text: str) -> tuple[PaddingDimension, ...] | None:
    """Read `0_0x1_-1x0_0_2`."""
    return padding_of(text) if all(map(_is_padding, text.split("x"))) else None


def plain_window(text: str) -> Window | None:
    """Read `{size=3x3 stride=2x2 pad=1_1x1_1}`."""
    inside = _inside(text, "{", "}")
    if inside is None:
        return None
    fields: dict[str, str] = {}
    for part in inside.split(" "):
        key, _, value = part.partition("=")
        is_plain = _is_padding if key == "pad" else _is_number
        if key not in WINDOW_FIELDS or key in fields or not all(map(is_plain, value.split("x"))):
            return None
        fields[key] = value
    return window_of(fields)


def plain_dim_labels(text: str) -> ConvolutionDimensions | None:
    """Read `b01f_01io->b01f`."""
    left, _, output = text.partition("->")
    lhs, _, kernel = left.partition("_")
    for labels, letters in ((lhs, _DATA_LABELS), (kernel, _KERNEL_LABELS), (output, _DATA_LABELS)):
        if len(labels) < 2 or not letters.issuperset(labels):
            return None
    return convolution_dimensions(text)


_DATA_LABELS = frozenset("0123456789bf?")
_KERNEL_LABELS = frozenset("0123456789io?")


def plain_propagation(text: str) -> tuple[bool, ...] | None:
    """Read `true` or `{true,false}`."""
    inside = _inside(text, "{", "}")
    words = [text] if inside is None else inside.split(",")
    return tuple(_TRUTHS[w] for w in words) if _TRUTHS.keys() >= set(words) else None


def _plain_words(text: str, sign: str = "") -> tuple[str, ...] | None:
    inside = _inside(text, "{", "}")
    words = inside.split(",") if inside else []
    return tuple(words) if words and all(_is_word(w.removeprefix(sign)) for w in words) else None


def _is_word(text: str) -> bool:
    """True for `highest`, `copy.11`; the grammar allows a little more."""
    return text.isascii() and text[:1] != "." and text.replace(".", "_").isidentifier()


def plain_words(text: str) -> tuple[str, ...] | None:
    """Read `{highest,highest}`."""
    return _plain_words(text)


def plain_names(text: str) -> tuple[str, ...] | None:
    """Read `{%copy.11,%p}`."""
    return _plain_words(text, "%")


def plain_int_lists(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Read `{{0,1},{2,3}}`."""
    inside = _inside(text, "{{", "}}")
    if inside is None:
        return None
    lists = [plain_int_list(f"{{{part}}}") for part in inside.split("},{")]
    return None if None in lists else tuple(x for x in lists if x is not None)


def plain_replica_groups(text: str) -> RawText | None:
    """Read `{{0,1},{2,3}}`."""
    groups = plain_int_lists(text)
    return None if groups is None else RawText("{" + ",".join(map(index_text, groups)) + "}")


def plain_output_aliases(text: str) -> RawText | None:
    """Read `{{}: (1, {}), {0,1}: (0, {2})}`."""
    inside = _inside(text, "{", ")}")
    if inside is None:
        return None
    found = []
    for part in inside.split("), "):
        output, _, rest = part.partition(": (")
        number, _, operand = rest.partition(", ")
        indices = plain_int_list(output), plain_int_list(operand)
        if None in indices or not _is_number(number):
            return None
        of_output, of_operand = (index_text(index or ()) for index in indices)
        found.append(f"{of_output}: ({int(number)}, {of_operand})")
    return RawText("{" + ", ".join(found) + "}")


PLAIN_READERS: dict[str, Callable[[str], Any]] = {
    "dim_labels": plain_dim_labels,
    "input_output_alias": plain_aliases,
    "int_list": plain_int_list,
    "int_lists": plain_int_lists,
    "metadata": plain_metadata,
    "names": plain_names,
    "output_to_operand_aliasing": plain_output_aliases,
    "padding": plain_padding,
    "propagation": plain_propagation,
    "replica_groups": plain_replica_groups,
    "slice": plain_slice,
    "window": plain_window,
    "words": plain_words,
}
"""Rule of the grammar -> what reads its plain texts; shapes are read by `ValueReader` itself."""
