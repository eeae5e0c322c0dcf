"""The formatter changes blanks and nothing else: comments, order and meaning stay."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.parser.format_text import format_text
from hloc.source import SourceFile

ROOT = Path(__file__).resolve().parents[3]

LAYOUT = """// licence
HloModule   m,is_scheduled=true   // header



// about f
f{// body
  a =f32[]   parameter( 0 ) b = f32[] parameter(1) // two

  // own


  /* pre */ ROOT r = f32[2,3]{1,0}  add(a,b), metadata={op_name="x  y"},  // why
     backend_config="q",
     // inside
     sharding={replicated}
  // last
} // end
ENTRY %e (x: f32[2],y: (f32[], /*index=1*/ s32[ ])) -> f32[2] {

  x = f32[2] parameter( 0 ) c = f32[2,2] constant({ {1, 2},
      {3,4}})
  ROOT y = add(x /*a*/,   x), metadata= {op_name="z"}
}
// eof"""
FORMATTED = """// licence
HloModule m, is_scheduled=true  // header

// about f
f {  // body
  a = f32[] parameter(0)
  b = f32[] parameter(1)  // two

  // own

  /* pre */ ROOT r = f32[2,3]{1,0} add(a, b), metadata={op_name="x  y"},  // why
      backend_config="q",
      // inside
      sharding={replicated}
  // last
}  // end

ENTRY %e (x: f32[2], y: (f32[], /*index=1*/ s32[])) -> f32[2] {
  x = f32[2] parameter(0)
  c = f32[2,2] constant({ {1, 2},
      {3,4}})
  ROOT y = add(x /*a*/, x), metadata={op_name="z"}
}

// eof
"""


def formatted(text: str) -> str:
    return format_text(SourceFile(text))


def comments(text: str) -> list[str]:
    return [c.strip() for c in re.findall(r"//[^\n]*|/\*.*?\*/", text, re.DOTALL)]


def test_one_layout_with_every_comment_in_its_place() -> None:
    assert formatted(LAYOUT) == FORMATTED
    assert formatted(FORMATTED) == FORMATTED


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.hlo")), ids=lambda p: p.name)
def test_examples_keep_their_meaning(path: Path) -> None:
    text = path.read_text()
    again = formatted(text)
    assert formatted(again) == again
    assert str(hloc.parse(again)) == str(hloc.parse(text))


def test_files_of_several_modules_and_lone_instructions() -> None:
    one = "HloModule m\n\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n"
    text = f"// first\n// -----\n{one}// -----\nf32[2] add(f32[2] x, f32[2] y)\n"
    assert formatted(text) == text
    assert formatted("\n\nf32[2]   add(f32[2] x,f32[2]  y)") == "f32[2] add(f32[2] x, f32[2] y)\n"


def test_all_syntax_faults_are_reported_and_nothing_is_formatted() -> None:
    with pytest.raises(hloc.HloError) as caught:
        formatted("HloModule m\nENTRY e { a = f32[] add(x y } }\n// -----\nHloModule n\nENTRY (")
    assert len(caught.value.diagnostics) >= 2
    with pytest.raises(hloc.HloError, match="empty"):
        formatted("")


BLANK = st.sampled_from(
    [" ", "  ", "\n", "\n\n\n", "\t", " /* c */ ", " // d\n", "\n// e\n", "\r\n"]
)
WORDS = (
    "HloModule m , is_scheduled=true \0 f { p = f32[2]{0} parameter(0) , "
    'metadata={op_name="a  b"} ROOT q = f32[2] negate( p ) , sharding={replicated} } \0 '
    "ENTRY %main (a: f32[2] , b: f32[2]) -> f32[2] { %a = f32[2] parameter(0) "
    '%b = f32[2] parameter(1) , backend_config={ "x" : [1, 2] } '
    "c = f32[2] constant({1, 2}) s = (f32[2], f32[2]) tuple(a , %b) "
    "ROOT %z = f32[2] call(c) , to_apply=f } \0"
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_blanks_and_comments_give_the_same_module_and_a_fixed_point(
    data: st.DataObject,
) -> None:
    words = WORDS.split()
    gaps = data.draw(st.lists(BLANK, min_size=len(words), max_size=len(words)))
    # Blanks inside brackets and strings are part of the value: only change those outside.
    text, depth = "", 0
    for word, gap in zip(words, gaps, strict=True):
        text += "" if word == "\0" else word
        depth += len(re.findall(r"[({\[]", word)) - len(re.findall(r"[)}\]]", word))
        quoted = text.count('"') % 2
        plain = quoted or "=" in word or depth > 1
        text += " " if plain else gap
    once = formatted(text)
    assert formatted(once) == once
    assert comments(once) == comments(text)
    assert str(hloc.parse(once)) == str(hloc.parse(text))
    assert once.endswith("}\n") or comments(once)
    assert not re.search(r"[ \t]$", once, re.MULTILINE)


def test_elements_of_tuples_stand_at_their_tuple() -> None:
    text = (
        "HloModule m\n\nENTRY e {\n  p = (f32[2], (s32[])) parameter(0)\n"
        "  ROOT r = s32[] abs({})\n}\n"
    )
    once = text.replace("{}", "s32[] p#1#0")
    assert formatted(text.replace("{}", " s32[]  p # 1  #0 ")) == once
    assert formatted(once) == once
    commented = text.replace("{}", "p # /*x*/ 1#0")
    assert comments(formatted(commented)) == ["/*x*/"]
