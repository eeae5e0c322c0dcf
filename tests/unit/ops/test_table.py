"""The table is complete: all opcodes of the format exist, and each can be run or says why not."""

import dataclasses

import pytest

import hloc.ops  # noqa: F401  fills the table
from hloc.ir.attribute_fields import attribute_fields
from hloc.ops import OPCODES


def test_all_133_opcodes_of_the_format_have_a_row() -> None:
    assert len(OPCODES) == 133


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_a_row_says_what_it_does_and_can_be_evaluated_or_refuses(name: str) -> None:
    row = OPCODES[name]
    assert row.reads
    assert row.evaluate is not None or row.refusal or name in ("parameter", "constant")
    assert not (row.elementwise and row.calls)


@pytest.mark.parametrize("name", sorted(n for n, row in OPCODES.items() if row.attributes))
def test_attributes_are_frozen_and_declared(name: str) -> None:
    attributes = OPCODES[name].attributes
    assert attributes is not None
    assert dataclasses.is_dataclass(attributes)
    assert attributes.__dataclass_params__.frozen  # type: ignore[attr-defined]
    declared = [field.field for field in attribute_fields(attributes)]
    assert declared or OPCODES[name].parenthesis


@pytest.mark.parametrize("name", sorted(OPCODES))
def test_the_facts_of_a_row_agree(name: str) -> None:
    row = OPCODES[name]
    assert row.nop + row.forwards + row.control_flow <= 1
    assert row.has_kernel or not (row.elementwise or row.contraction)
    assert row.elementwise or not (row.transcendental or row.modular or row.idempotent)
    assert not (row.contraction and row.data_movement)
    assert row.commutative or not row.associative
    assert row.arity == 2 or not (row.commutative or row.idempotent)
    assert row.calls or not row.control_flow
    assert set(row.ended_by) <= set(OPCODES)
    assert (row.weight > 1) >= row.transcendental
    assert (row.gpu_weight > 1) >= row.transcendental
