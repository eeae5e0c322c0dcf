"""Attributes that hloc keeps as text in normal form: conversion to messages and back.

Reading creates the text, which the grammar checks; writing parses the normal form.
"""

from __future__ import annotations

import re
from typing import Any

from hloc.formats.faults import BadMessage, bytes_of, name_of, number_of, text_of
from hloc.formats.proto_devices import fill_sharding, sharding_text
from hloc.formats.proto_literals import fill_literal, literal_of_proto
from hloc.ir.attribute_fields import int_list_text, quoted
from hloc.ir.attributes import RawText
from hloc.ir.literal_text import literal_text
from hloc.ops.block_sparsity import SIDES, sparsities
from hloc.parser.literals import parse_literal
from hloc.parser.strings import unquote
from hloc.source import SourceFile

_MAX_INDEX = 32
"""Maximum length of an index into nested tuples."""


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number.strip()]


# ---------------------------------------------------------------- aliasing of outputs


_ALIAS = re.compile(r"\{([\d, ]*)\}: \((-?\d+), \{([\d, ]*)\}\)")


def read_aliasing(inst: Any, context: Any) -> RawText | None:
    """Return `{{0}: (1, {})}`, None if nothing aliases."""
    texts = [
        f"{int_list_text(tuple(a.output_shape_index))}: "
        f"({a.operand_index}, {int_list_text(tuple(a.operand_shape_index))})"
        for a in inst.output_operand_aliasing
    ]
    if not texts:
        return None
    found: RawText = context.grammar("output_to_operand_aliasing", "{" + ", ".join(texts) + "}")
    return found


def fill_aliasing(inst: Any, value: RawText | None, _context: Any) -> None:
    """Write the aliases in the text."""
    for output, operand, index in _ALIAS.findall(value.text if value else ""):
        inst.output_operand_aliasing.add(
            output_shape_index=_numbers(output),
            operand_index=int(operand),
            operand_shape_index=_numbers(index),
        )


# ---------------------------------------------------------------- domain


_DOMAIN = re.compile(r'\{kind="sharding", entry=(\{.*\}), exit=(\{.*\})\}', re.DOTALL)


def read_domain(inst: Any, context: Any) -> RawText:
    """Return `{kind="sharding", entry=..., exit=...}`; the message uses the sides of the graph.

    The entry of the text is the user's side, which is the exit of the message.
    """
    entry = sharding_text(inst.domain_exit_sharding, context.payloads)
    leave = sharding_text(inst.domain_entry_sharding, context.payloads)
    found: RawText = context.grammar("domain", f'{{kind="sharding", entry={entry}, exit={leave}}}')
    return found


def fill_domain(inst: Any, value: RawText, context: Any) -> None:
    """Write both shardings of a domain."""
    found = _DOMAIN.fullmatch(value.text)
    assert found is not None, value
    fill_sharding(inst.domain_exit_sharding, context.grammar("sharding", found.group(1)))
    fill_sharding(inst.domain_entry_sharding, context.grammar("sharding", found.group(2)))
    inst.domain_exit_sharding.SetInParent()
    inst.domain_entry_sharding.SetInParent()


# ---------------------------------------------------------------- literal of a custom-call


def read_custom_literal(inst: Any, _context: Any) -> RawText | None:
    """Return `s32[2]{0} {1, 2}`."""
    if not inst.HasField("literal"):
        return None
    literal = literal_of_proto(inst.literal)
    return RawText(f"{literal.shape} {literal_text(literal)}")


def fill_custom_literal(inst: Any, value: RawText | None, context: Any) -> None:
    """Write the literal in the text."""
    if value is None:
        return
    text, data = _shape_and_data(value.text)
    shape = context.grammar("shape", text)
    fill_literal(inst.literal, parse_literal(SourceFile(data), data, 0, shape))


def _shape_and_data(text: str) -> tuple[str, str]:
    """Split `s32[2]{0} {1, 2}` at the first space that is not within a tuple shape."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == " " and not depth:
            return text[:place], text[place + 1 :]
    raise BadMessage(f"literal: expected a shape and values, found {text}")


# ---------------------------------------------------------------- sparsity


def read_sparsity(inst: Any, _context: Any) -> RawText | None:
    """Return `{lhs={sparsity=2x4 dimension=1 stride=2 idx=2}}`, None if neither side is sparse."""
    texts = []
    for side in SIDES:
        if inst.sparsity_config.HasField(side):
            found = getattr(inst.sparsity_config, side)
            places = f" idx={found.idx}" if found.idx else ""
            texts.append(
                f"{side}={{sparsity={found.num_non_zero}x{found.block_size} "
                f"dimension={found.dimension} stride={found.stride}{places}}}"
            )
    return RawText("{" + " ".join(texts) + "}") if texts else None


def fill_sparsity(inst: Any, value: RawText | None, _context: Any) -> None:
    """Write the sparsity of each side."""
    for side, found in sparsities(value).items():
        proto = getattr(inst.sparsity_config, side)
        proto.num_non_zero, proto.block_size = found.stored, found.block
        proto.dimension, proto.stride, proto.idx = found.dimension, found.stride, found.places


# ---------------------------------------------------------------- accuracy and statistics


_TOLERANCE = re.compile(r"(atol|rtol|ulps)=([^,}]+)")


def read_accuracy(proto: Any, grammar: Any) -> RawText | None:
    """Return `{tolerance={...}}` or `{mode=highest}`, None for the default."""
    if proto.HasField("tolerance"):
        found = proto.tolerance
        text = f"{{tolerance={{atol={found.atol!r},rtol={found.rtol!r},ulps={found.ulps}}}}}"
    else:
        text = f"{{mode={name_of('accuracy', proto.mode)}}}"
    value: RawText | None = grammar("result_accuracy", text)
    return value


def fill_accuracy(proto: Any, value: RawText) -> None:
    """Write the tolerance or mode."""
    if "tolerance" not in value.text:
        proto.mode = number_of("accuracy", value.text[len("{mode=") : -1])
        return
    for name, number in _TOLERANCE.findall(value.text):
        setattr(proto.tolerance, name, int(number) if name == "ulps" else float(number))
    proto.tolerance.SetInParent()


def read_statistics(proto: Any, grammar: Any) -> RawText | None:
    """Return `{visualizing_index=1,stat-1=33}`, None without statistics."""
    if not proto.statistics:
        return None
    texts = [f"visualizing_index={proto.stat_index_to_visualize}"]
    texts += [f"{text_of(s.stat_name)}={s.stat_val:g}" for s in proto.statistics]
    value: RawText | None = grammar("statistics", "{" + ",".join(texts) + "}")
    return value


def fill_statistics(proto: Any, value: RawText) -> None:
    """Write the statistics."""
    for pair in value.text[1:-1].split(","):
        name, _, number = pair.partition("=")
        if name == "visualizing_index":
            proto.stat_index_to_visualize = int(float(number))
        else:
            proto.statistics.add(stat_name=bytes_of(name), stat_val=float(number))


# ---------------------------------------------------------------- origin


def read_origin(proto: Any, grammar: Any) -> RawText | None:
    """Return `{({"v1"}, {"v2" {1,0}})}` or `{[synthetic_call]}`."""
    if proto.is_synthetic_call:
        text = "{[synthetic_call]}"
    elif proto.elements:
        text = "{" + _tree_text([(tuple(e.shape_index), e) for e in proto.elements], 0) + "}"
    else:
        return None
    value: RawText = grammar("origin", text)
    return value


def _tree_text(elements: list[tuple[tuple[int, ...], Any]], depth: int) -> str:
    """Return the text of the elements, whose indices agree in their first `depth` entries."""
    index, first = elements[0]
    if len(elements) == 1 and len(index) == depth:
        if not first.HasField("original_array"):
            return "{}"
        array = first.original_array
        at = f" {int_list_text(tuple(array.shape_index))}" if array.shape_index else ""
        return "{" + quoted(text_of(array.instruction_name)) + at + "}"
    children: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
    for path, element in elements:
        if len(path) <= depth or len(path) > _MAX_INDEX:
            raise BadMessage("an original value has indices that are no tree")
        children.setdefault(path[depth], []).append((path, element))
    if sorted(children) != list(range(len(children))):
        raise BadMessage("an original value leaves out an element of a tuple")
    texts = [_tree_text(children[number], depth + 1) for number in range(len(children))]
    return "(" + ", ".join(texts) + ")"


_ORIGIN = re.compile(r'\{("(?:[^"\\]|\\.)*")(?: \{([\d, ]*)\})?\}|(\{\})|([(),])')


def fill_origin(proto: Any, value: RawText) -> None:
    """Write the tree of original arrays."""
    if value.text == "{[synthetic_call]}":
        proto.is_synthetic_call = True
        return
    index: list[int] = []
    for name, at, missing, mark in _ORIGIN.findall(value.text[1:-1]):
        if mark == "(":
            index.append(0)
        elif mark == ")":
            index.pop()
        elif mark == ",":
            index[-1] += 1
        else:
            element = proto.elements.add(shape_index=index)
            if not missing:
                element.original_array.instruction_name = bytes_of(unquote(name))
                element.original_array.shape_index.extend(_numbers(at))
