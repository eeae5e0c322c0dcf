"""Instructions of equal opcode, shape and attributes share what was read of the first."""

from __future__ import annotations

import pytest

import hloc
from hloc.errors import HloError
from hloc.ir.printer import PrintOptions, _Printer

_TEXT = """HloModule m

ENTRY e {{
  a = f32[4] parameter(0), metadata={{op_name="a"}}
  b = f32[4] add(a, a), metadata={{op_name="first"}}
  {line}
  ROOT d = f32[4] add(b, b)
}}
"""


def test_each_has_its_own_operands_metadata_and_place() -> None:
    module = hloc.parse(_TEXT.format(line='c = f32[4] add(b, a), metadata={op_name="second"}'))
    b, c, d = module.entry.instructions[1:]
    assert [operand.name for operand in c.operands] == ["b", "a"]
    assert [inst.common.metadata and inst.common.metadata.op_name for inst in (b, c, d)] == [
        "first",
        "second",
        None,
    ]
    assert c.span is not None
    assert c.span.text == "c = f32[4] add"
    assert b.shape is c.shape


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("c = f32[4] add(b)", "add expects 2 operands"),
        ("c = f32[4] add(b, b, b)", "add expects 2 operands"),
        ("c = f32[4] add(b, x)", "instruction does not exist: x"),
        ("b = f32[4] add(a, a)", "instruction already exists: b"),
        ("c = f32[4] add(b, a), metadata={op_name=1}", "metadata op_name takes a string"),
        ("c = f32[4] parameter(x)", "expected a parameter number"),
        ("c = f32[4] parameter(0)", "duplicate parameter number 0"),
    ],
)
def test_a_fault_in_the_second_is_reported(line: str, message: str) -> None:
    with pytest.raises(HloError) as caught:
        hloc.parse(_TEXT.format(line=line))
    assert message in str(caught.value)


def test_constants_of_one_text_but_two_shapes_differ() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[] constant(1)
  b = s32[] constant(1)
  c = f32[] constant(1)
  d = f32[] constant(2)
  ROOT t = (f32[], s32[], f32[], f32[]) tuple(a, b, c, d)
}"""
    a, b, c, d, _ = hloc.parse(text).entry.instructions
    assert [str(i.attributes.literal.shape) for i in (a, b, c, d)] == ["f32[]", "s32[]"] + [
        "f32[]"
    ] * 2
    assert [float(i.attributes.literal.value) for i in (a, b, c, d)] == [1, 1, 1, 2]


def test_records_of_equal_value_but_other_sign_of_zero_stay_apart() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[2,3] parameter(0)
  s = f32[3] parameter(1)
  x = f32[2,3] batch-norm-inference(a, s, s, s, s), epsilon=0, feature_index=1
  ROOT y = f32[2,3] batch-norm-inference(x, s, s, s, s), epsilon=-0, feature_index=1
}"""
    *_, x, y = hloc.parse(text).entry.instructions
    assert [str(x.attributes.epsilon), str(y.attributes.epsilon)] == ["0.0", "-0.0"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_comment_ends_with_its_line_in_files_of_every_system(line_end: str) -> None:
    lines = ("HloModule m // x", "// y", "ENTRY e { // z", "ROOT c = s32[] constant(7) // 8", "}")
    assert hloc.parse(line_end.join(lines)).entry.root.attributes.literal.value == 7


def test_operands_with_shapes_are_numbered_too() -> None:
    """Every fifth operand, as in prints without shapes."""
    module = hloc.parse("ENTRY e { a = u8[] parameter(0) ROOT t = tuple(a, a, a, a, a, a) }")
    options = PrintOptions(operand_shape=True)
    assert "u8[] %a, /*index=5*/u8[] %a)" in _Printer(options, module).module()
