"""Reads values of the most common rules without Lark.

A text is read here if the pattern of its rule matches (`grammar_file.rule_pattern`); all other
texts, malformed ones too, are left to the grammar. Importing Lark and its tables takes tens of
milliseconds, as much as the rest of reading a small module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hloc.ir.attributes import Alias, EntryLayout, Metadata, RawText, SliceDimension
from hloc.ir.replica_groups import GroupLists
from hloc.parser.common_values import METADATA_TYPES, alias_of
from hloc.parser.grammar_file import rule_pattern, terminal
from hloc.parser.opcode_values import convolution_dimensions, padding_of, window_of
from hloc.parser.shape_values import array_of
from hloc.parser.strings import unquote
from hloc.parser.value_tools import index_text, int_of, once
from hloc.shapes import Shape, TupleShape

_IDENT, _INT, _STRING = terminal("IDENT"), terminal("INT"), terminal("STRING")
_BLANKS = r"[ \t\r\n]*+"
_NEVER = "(?!)"
_MARK = "\0"
"""Stands for an array in a list of shapes, and between names; no module text contains it."""

_all_ints = re.compile(_INT).findall
_all_braced = re.compile(r"\{([^{}]*+)\}").findall
_all_bracketed = re.compile(r"\[([^\[\]]*+)\]").findall
_all_words = re.compile(_IDENT).findall
_all_names = re.compile(f"%?{_IDENT}").findall
_all_window_fields = re.compile(
    f"({_IDENT}){_BLANKS}={_BLANKS}({terminal('PAD')}|{terminal('DXD')}|{_INT})"
).findall
# metadata: "{" (metadata_field ","?)* "}", split at its fields: 5 us a text, 10 with
# `rule_pattern`.
_metadata_pieces = re.compile(
    rf"(?<![A-Za-z0-9_.\-])({_IDENT})=(?:({terminal('DOUBLE_QUOTED')})|({_INT}))"
).split
_BETWEEN_FIELDS = frozenset((" ", ", ", ","))
# parameters: "(" [parameter ("," parameter)*] ")", names of flat lists of arrays.
_is_names = re.compile(rf"{_IDENT}(?:{_MARK}{_IDENT})*+").fullmatch
_all_aliases = re.compile(
    rf"\{{([^{{}}]*+)\}}{_BLANKS}:{_BLANKS}\({_BLANKS}({_INT}){_BLANKS},{_BLANKS}\{{([^{{}}]*+)\}}"
    rf"{_BLANKS}(?:,{_BLANKS}({_IDENT}))?+"
).findall


def _ints(text: str) -> tuple[int, ...]:
    return tuple(map(int_of, _all_ints(text)))


def _int_lists(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(map(_ints, _all_braced(text[1:-1])))


def _slice(text: str) -> tuple[SliceDimension, ...]:
    return tuple(SliceDimension(*_ints(part)) for part in _all_bracketed(text))


def _metadata(text: str) -> Metadata | None:
    """Return the metadata, None for a fault; a large module has thousands of distinct texts."""
    pieces = _metadata_pieces(text)  # "{", key, string, number, " ", key, ..., "}"
    if pieces[0] != "{" or pieces[-1] != "}" or not _BETWEEN_FIELDS.issuperset(pieces[4:-1:4]):
        return Metadata() if text == "{}" else None
    keys = pieces[1::4]
    fields: dict[str, Any] = {}
    for key, string, number in zip(keys, pieces[2::4], pieces[3::4], strict=True):
        if string is not None and METADATA_TYPES.get(key) is str:
            fields[key] = unquote(string)
        elif number is not None and METADATA_TYPES.get(key) is int:
            fields[key] = int_of(number)
        else:
            return None
    return Metadata(**fields) if len(fields) == len(keys) else None


def _input_aliases(text: str) -> tuple[Alias, ...]:
    return tuple(
        alias_of(_ints(output), int_of(number), _ints(index), kind)
        for output, number, index, kind in _all_aliases(text)
    )


def _output_aliases(text: str) -> RawText | None:
    found = [
        f"{index_text(_ints(output))}: ({int_of(number)}, {index_text(_ints(operand))})"
        for output, number, operand, _ in _all_aliases(text)
    ]
    return RawText("{" + ", ".join(found) + "}") if found else None


_READERS: dict[str, Callable[[str], Any]] = {
    "dim_labels": lambda text: convolution_dimensions(text.rstrip()),
    "input_output_alias": _input_aliases,
    "int_list": _ints,
    "int_lists": _int_lists,
    "names": lambda text: tuple(_all_names(text)),
    "output_to_operand_aliasing": _output_aliases,
    "padding": padding_of,
    "propagation": lambda text: tuple(word == "true" for word in _all_words(text)),
    "replica_groups": lambda text: GroupLists(_int_lists(text)),
    "slice": _slice,
    "window": lambda text: window_of(dict(once(_all_window_fields(text)))),
    "words": lambda text: tuple(_all_words(text)),
}


def _list_text(text: str) -> str:
    return f"{{{','.join(_all_ints(text))}}}"


def _lists_text(text: str) -> str:
    return f"{{{','.join(map(_list_text, _all_braced(text[1:-1])))}}}"


def _slice_text(text: str) -> str:
    ranges = [f"[{':'.join(_all_ints(part))}]" for part in _all_bracketed(text)]
    ranks = {part.count(":") for part in ranges}
    return f"{{{', '.join(ranges)}}}" if ranks <= {1, 2} else ""


def _dim_labels_text(text: str) -> str:
    left, _, output = text.partition("->")
    lhs, _, kernel = left.partition("_")
    digits = "0123456789?"
    parts = ((lhs, "bf"), (kernel, "io"), (output, "bf"))
    is_right = all(len(part) > 1 and not part.strip(digits + roles) for part, roles in parts)
    return f"{lhs}_{kernel}->{output}" if is_right else ""


def _padding_text(text: str) -> str:
    dims = [_all_ints(dim) for dim in text.split("x")]
    is_right = all(len(dim) == 2 or (len(dim) == 3 and dim[2][0] != "-") for dim in dims)
    return "x".join(map("_".join, dims)) if is_right else ""


def _words_text(text: str) -> str:
    words = _all_words(text)
    return f"{{{','.join(words)}}}" if words else ""


def _aliases_text(text: str, *, with_kinds: bool) -> str:
    return ", ".join(
        [
            f"{_list_text(output)}: ({number}, {_list_text(index)}"
            + (f", {kind})" if kind and with_kinds else ")")
            for output, number, index, kind in _all_aliases(text)
        ]
    )


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "dim_labels": _dim_labels_text,
    "input_output_alias": lambda text: f"{{ {_aliases_text(text, with_kinds=True)} }}",
    "int_list": _list_text,
    "int_lists": _lists_text,
    "output_to_operand_aliasing": lambda text: f"{{{_aliases_text(text, with_kinds=False)}}}",
    "padding": _padding_text,
    "replica_groups": _lists_text,
    "slice": _slice_text,
    "window": lambda text: (
        "{" + " ".join([f"{key}={value}" for key, value in _all_window_fields(text)]) + "}"
    ),
    "words": _words_text,
}
"""How XLA spells what is found in a text: one that is spelled so needs no pattern of its rule.

These patterns take 0.7 to 4 ms to compile.
"""
_INSTEAD = {
    "array": {"layout_attributes": _NEVER},
    "replica_groups": {"iota": _NEVER, "mesh": _NEVER},
}
_NESTING = {"shape": 3, "shapes": 3, "parameters": 2, "entry_computation_layout": 2}
_IN_SHAPES = {"array": _MARK, "buffer": _NEVER, "name": _NEVER}


@cache
def _pattern(rule: str) -> re.Pattern[str]:
    instead = _IN_SHAPES if rule in _NESTING else _INSTEAD.get(rule)
    if rule == "array":  # searched for inside texts: must not match the tail of a name
        return re.compile(r"(?<![A-Za-z0-9_.\-])" + rule_pattern(rule, 1, instead))
    return re.compile(rule_pattern(rule, _NESTING.get(rule, 1), instead))


def read_plain(rule: str, text: str, shape_of: Callable[[str, int], Shape]) -> Any:
    """Return the value of `text`, without comments, by `rule`; None to leave it to the grammar.

    Args:
        rule: a rule of the grammar.
        text: an attribute value or shape.
        shape_of: returns the array at an offset of the text.

    Raises:
        BadValue, ValueError: the text conforms to the rule, but its value is invalid.
    """
    if rule == "metadata":
        return _metadata(text)
    reader, spelling = _READERS.get(rule), _SPELLINGS.get(rule)
    if reader is not None:
        is_printed = spelling is not None and spelling(text) == text
        return reader(text) if is_printed or _pattern(rule).fullmatch(text) else None
    if rule == "shape" and _pattern("array").fullmatch(text):
        return array_of(text)
    return _shapes(rule, text, shape_of) if rule in _NESTING else None


def _shapes(rule: str, text: str, shape_of: Callable[[str, int], Shape]) -> Any:
    """Read nested tuples of arrays; each array is looked up by its own text."""
    array = _pattern("array")
    if rule == "parameters" and _flat_parameters(text, array, shape_of):
        return ()
    skeleton = array.sub(_MARK, text)
    if _MARK in text:
        return None
    if not _is_printed(rule, skeleton) and not _pattern(rule).fullmatch(skeleton):
        return None
    arrays = (shape_of(found.group(), found.start()) for found in array.finditer(text))
    whole = _nested(_all_signs(skeleton), arrays)
    if rule == "shape":
        return whole
    assert isinstance(whole, TupleShape)
    if rule == "parameters":  # checked and dropped, as XLA does
        return ()
    if rule == "shapes":
        return whole.elements
    parameters, result = whole.elements
    assert isinstance(parameters, TupleShape)
    return EntryLayout(parameters.elements, result)


def _is_printed(rule: str, skeleton: str) -> bool:
    """True if arrays stand in tuples as XLA prints them; the pattern takes 2 to 5 ms to compile."""
    folded = skeleton
    for _ in range(_NESTING["shape"]):
        folded = _in_tuple(_MARK, folded)
    if rule == "entry_computation_layout":
        return skeleton.startswith("{(") and folded == f"{{{_MARK}->{_MARK}}}"
    return folded == _MARK if rule == "shape" else rule == "shapes" and _is_list(folded) is not None


def _flat_parameters(
    text: str, array: re.Pattern[str], shape_of: Callable[[str, int], Shape]
) -> bool:
    """Check `(a: f32[2], b: s32[])`, twice as fast as `rule_pattern`; False for any other text."""
    if text[:1] != "(" or text[-1:] != ")":
        return False
    parameters = [part.partition(": ") for part in text[1:-1].split(", ")]
    shapes = {shape for _, _, shape in parameters}
    if not _is_names(_MARK.join([name for name, _, _ in parameters])):
        return False
    if not all(map(array.fullmatch, shapes)):
        return False
    for shape in shapes:
        shape_of(shape, text.index(shape))
    return True


_ARRAYS = rf"(?:{_MARK}(?:, *+{_MARK})*+)?+"
_in_tuple = re.compile(rf"\({_ARRAYS}\)").sub
_is_list = re.compile(rf"\{{{_ARRAYS}\}}").fullmatch
_all_signs = re.compile(rf"[(){{}}{_MARK}]").findall


def _nested(signs: list[str], arrays: Iterator[Shape]) -> Shape:
    outer: list[list[Shape]] = []
    inner: list[Shape] = []
    for sign in signs:
        if sign == _MARK:
            inner.append(next(arrays))
        elif sign in "({":
            outer.append(inner)
            inner = []
        else:
            shape = TupleShape(tuple(inner))
            inner = outer.pop()
            inner.append(shape)
    return inner[0]
