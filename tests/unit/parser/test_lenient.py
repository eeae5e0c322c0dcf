"""Reading for editors: what `parse` says, and what could be read in spite of faults."""

import pytest

from hloc.errors import HloError
from hloc.parser import parse, parse_leniently
from hloc.source import SourceFile

TEXT = """HloModule m
f {
  a = f32[2] parameter(0)
  ROOT b = f32[2] negate(a)
}
ENTRY g {
  a = f32[2] parameter(0)
  c = f32[2] call(a), to_apply=f
  ROOT d = f32[2] tanh(c)
}
"""

FAULTS = {
    "an unknown opcode": ("tanh(", "tahn(", "abac"),
    "a wrong shape": ("f32[2] tanh(", "f32[3] tanh(", "abacd"),
    "an unknown operand": ("negate(a)", "negate(q)", "aa"),
    "syntax": ("call(a)", "call(a a)", "aba"),
    "the header": ("HloModule m", "HloModule m, strange=1", "abacd"),
    "garbage": (TEXT, "\0", ""),
}


@pytest.mark.parametrize("case", FAULTS)
def test_sound_instructions_of_a_faulty_text_are_known(case: str) -> None:
    good, bad, names = FAULTS[case]
    source = SourceFile(TEXT.replace(good, bad))
    reading = parse_leniently(source)
    with pytest.raises(HloError) as caught:
        parse(source)
    assert reading.diagnostics == caught.value.diagnostics
    assert reading.module is None
    places = [inst.span.start for inst in reading.instructions if inst.span is not None]
    assert "".join(source.text[at] for at in sorted(places)) == names


def test_a_text_without_faults_gives_its_module() -> None:
    reading = parse_leniently(SourceFile(TEXT))
    assert reading.module is not None
    assert reading.module.entry.name == "g"
    assert [inst.name for inst in reading.instructions] == ["a", "b", "a.1", "c", "d"]
    assert reading.diagnostics == ()
