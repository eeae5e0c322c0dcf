"""The pattern of tokens, as the page has it, finds what hloc.editors finds."""

import re

from hloc.editors.tokens import text_pattern
from hloc.web.highlighting import highlighting, javascript_pattern
from tests.unit.editors.test_tokens import MODULE

HARD = (
    "\"open /* x %a.b -nan nan(0x1) 0_1_2x3_4 1x2 -.5e3 bf01_io01->bf01 <= ... 'q\\'q' "
    "/* a * b */ é"
)


def test_the_pattern_of_the_page_matches_the_same() -> None:
    ours = re.compile(text_pattern())
    theirs = re.compile(highlighting()["pattern"].replace("(?<", "(?P<").replace("(?P<=", "(?<="))
    for text in (MODULE, HARD, MODULE + HARD):
        found = [(m.lastgroup, m.group()) for m in ours.finditer(text)]
        assert [(m.lastgroup, m.group()) for m in theirs.finditer(text)] == found


def test_a_pattern_has_nothing_that_javascript_lacks() -> None:
    assert javascript_pattern(r"(?P<a>(?:[^*]++|\*(?!\/))*+x?+)|\++") == (
        r"(?<a>(?:[^*]|\*(?!\/))*x?+)|\++"
    )
    assert not re.search(r"(?<!\\)[+*]\+|\(\?P", highlighting()["pattern"])
