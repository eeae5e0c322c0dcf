"""All independent faults of a text in one round: of the text, of attributes and of shapes."""

import pytest

import hloc
from hloc.errors import HloError

TEXT = """HloModule m

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] compare(a, b), direction=LT
}

ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] tanhh(x)
  b = f32[5] add(x, x)
  c = f32[4] multiply(x, y)
  d = f32[4] transpose(x)
  h = f32[4] slice(x), slice={[0:9]}
  k = f32[4] negate(x), nonsense=3
  l = f32[4 negate(x)
  ROOT m = f32[4] add(a, c)
}
"""


def _faults(text: str) -> list[tuple[int, str]]:
    with pytest.raises(HloError) as caught:
        hloc.parse(text)
    found = []
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.span is not None
        line, _ = diagnostic.span.source.line_column(diagnostic.span.start)
        found.append((line, diagnostic.code))
    return found


def test_faults_of_text_attributes_and_shapes_come_together() -> None:
    assert _faults(TEXT) == [
        (6, "HLOC0314"),  # the shape of another computation
        (11, "HLOC0104"),  # an opcode
        (12, "HLOC0312"),  # a shape
        (13, "HLOC0105"),  # a name
        (14, "HLOC0204"),  # an attribute that is missing
        (15, "HLOC0313"),  # a slice beyond its operand
        (16, "HLOC0202"),  # an attribute that it does not have
        (17, "HLOC0102"),  # a bracket
    ]


def test_users_of_what_could_not_be_read_are_not_blamed() -> None:
    text = TEXT.replace("f32[4] add(a, c)", "f32[9] add(a, c)")
    assert _faults(text) == _faults(TEXT)


def test_without_verification_only_the_text_counts() -> None:
    with pytest.raises(HloError) as caught:
        hloc.parse(TEXT, verify=False)
    assert not [d.code for d in caught.value.diagnostics if d.code.startswith("HLOC03")]


def test_corrected_faults_leave_no_others() -> None:
    text = TEXT.replace("c = f32[] compare", "c = pred[] compare").replace("tanhh", "tanh")
    text = text.replace("f32[5]", "f32[4]").replace("(x, y)", "(x, x)").replace(", nonsense=3", "")
    text = text.replace("transpose(x)", "transpose(x), dimensions={0}").replace("[0:9]", "[0:4]")
    assert hloc.parse(text.replace("f32[4 negate", "f32[4] negate")).instruction_count == 12
