"""A module whose every string attacks what shows it, and what finds out whether one got through."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from hloc.ir.attribute_fields import quoted

EVIL = (
    "<script>alert(1)</script>\"' onload=x */ \\ ]]> --> ${x} %s {} &lt; $(touch stolen) `touch "
    "stolen` ; touch stolen # ../../../etc/x \x1b[31m \x1b]0;title\x07 \x08 \x9b2J \x85 \u2028 "
    "\u202etxt.exe\u202c \u2066 \x7f"
)
"""What HTML, C, DOT, JSON, shells, terminals and file systems would act on."""

RAW = "".join(c for c in EVIL if c not in '"\\{}')
"""The same without what would end a string that is not escaped."""


def hostile_text() -> str:
    """Return a module that computes, with `EVIL` wherever the format has room for a text."""
    e = quoted(EVIL)
    return f"""HloModule m, frontend_attributes={{a={e}}}

// {RAW}
FileNames
1 {e}
2 "{RAW}"

FunctionNames
1 {e}

FileLocations
1 {{file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=1}}
2 {{file_name_id=2 function_name_id=1 line=1 end_line=1 column=1 end_column=1}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b), metadata={{op_name={e}}}
}}

ENTRY e {{
  x = f32[8,8] parameter(0), metadata={{op_name={e} source_file={e} source_line=3}}
  y = f32[8,8] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
    metadata={{op_type={e} op_name="{RAW}" stack_frame_id=1}}, frontend_attributes={{k={e}}},
    backend_config={{"a":"{RAW}
```
<script>alert(2)</script>"}}
  c = f32[8,8] custom-call(y), custom_call_target="Sharding", backend_config={e}
  z = f32[8,8] exponential(c), metadata={{op_name="jit(f)/{RAW}/exp" source_file={e} source_line=9}}
  w = f32[8,8] negate(z), metadata={{op_name="jit(f)/{RAW}/neg" stack_frame_id=2}}
  zero = f32[] constant(0)
  ROOT r = f32[8] reduce(w, zero), dimensions={{0}}, to_apply=sum, metadata={{op_name={e}}}
}}
"""


def unsafe_characters(text: str) -> set[str]:
    """Return what a terminal would act on."""
    return {c for c in text if not c.isprintable() and c not in "\n\t"}


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.handlers: list[str] = []
        self.links: list[str | None] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data


def elements_of(page: str) -> _Elements:
    """Return the scripts, event handlers and links of an HTML page, as a browser finds them."""
    found = _Elements()
    found.feed(page)
    found.close()
    return found


def check_svg(picture: str) -> None:
    """Check that an SVG is well formed and has neither scripts nor handlers."""
    for element in ElementTree.fromstring(picture).iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a", "image")
        assert not [name for name in element.attrib if name.startswith("on") or "href" in name]


_DOT_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def check_dot(text: str) -> None:
    """Check that all of a DOT text but its strings is of the language's own words."""
    rest = _DOT_STRING.sub('""', text)
    assert re.fullmatch(r'[\w\s\[\]{}=,;>."-]*', rest, re.ASCII), rest


_C_TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def check_c(text: str) -> None:
    """Check that nothing of `EVIL` is outside of comments, and all is ASCII on its line."""
    assert text.isascii()
    assert not unsafe_characters(text)
    assert not re.search(r"alert|stolen|onload|etc/x", _C_TOKENS.sub(" ", text))
    assert "\\\n" not in re.sub(r"#define[^\n]*(\\\n[^\n]*)*", "", text), "no comment is continued"
