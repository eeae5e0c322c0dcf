"""The place in the user's program, from stack frames first and from metadata without them."""

import pytest

import hloc
from hloc.ir.origin import origin_of, origins_of

TEXT = """HloModule m

FileNames
1 "train.py"
2 "layers.py"

FunctionNames
1 "loss"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=31 end_line=31 column=1 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

ENTRY e {
  a = f32[2] parameter(0)
  b = f32[2] negate(a), metadata={op_name="x" stack_frame_id=2}
  c = f32[2] negate(b), metadata={source_file="old.py" source_line=5}
  ROOT d = f32[2] negate(c), metadata={op_name="x" stack_frame_id=9}
}
"""


def test_the_innermost_frame_is_the_origin() -> None:
    a, b, c, d = hloc.parse(TEXT).entry.instructions
    assert origin_of(b) == "layers.py:7 in dense"
    assert origins_of(b) == ("layers.py:7 in dense", "train.py:31 in loss")
    assert origin_of(c) == "old.py:5"
    assert origin_of(a) == origin_of(d) == ""


def test_a_circle_of_parents_ends() -> None:
    text = TEXT.replace(
        "{file_location_id=1 parent_frame_id=1}", "{file_location_id=1 parent_frame_id=3}"
    )
    assert len(origins_of(hloc.parse(text).entry.instructions[1])) == 2


def test_the_verifier_says_where_the_instruction_was_made() -> None:
    with pytest.raises(hloc.HloError) as caught:
        hloc.parse(TEXT.replace("b = f32[2] negate", "b = f32[3] negate"))
    assert "made at layers.py:7 in dense" in caught.value.diagnostics[0].notes


CALLED = """
sorted {
  p = f32[2] parameter(0)
  ROOT q = f32[2] tanh(p), metadata={op_name="sort"}
}

ENTRY e {
  a = f32[2] parameter(0)
  ROOT c = f32[2] call(a), to_apply=sorted, metadata={op_name="x" stack_frame_id=2}
}
"""


def test_a_body_without_a_place_has_that_of_its_only_caller() -> None:
    """Before it is inlined, and after."""
    module = hloc.parse(TEXT.partition("ENTRY")[0] + CALLED)
    (called,) = module.entry.root.called
    assert origin_of(called.root) == "layers.py:7 in dense"
    root = module.apply("call-inliner").entry.root
    assert root.opcode.name == "tanh"
    assert origin_of(root) == "layers.py:7 in dense"
    assert root.common.metadata is not None
    assert root.common.metadata.op_name == "sort"


def test_a_circle_of_callers_ends_at_the_verifier() -> None:
    text = CALLED.replace("tanh(p)", "call(p), to_apply=sorted")
    text = text.replace("ROOT c = f32[2] call", "ROOT c = f32[2] negate").replace(
        "negate(a), to_apply=sorted", "negate(a)"
    )
    with pytest.raises(hloc.HloError):
        hloc.parse(TEXT.partition("ENTRY")[0] + text)
