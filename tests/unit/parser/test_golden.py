"""Golden texts: what a module prints as, and what is said of a wrong one.

The expected prints of `parser` were compared with jaxlib 0.10.2 (`test_against_xla.py` does it
again); `parser_2026` has text that it does not know (docs/text-versions.md). The expected errors
are hloc's own.
"""

from pathlib import Path

import pytest

from hloc.errors import HloError
from hloc.parser import parse
from hloc.source import SourceFile

GOLDEN = Path(__file__).parents[2] / "golden"


def cases(path: Path) -> list[tuple[str, str, str]]:
    """Return name, text and expectation of every case in `path`."""
    found = []
    for block in path.read_text().split("// -----\n"):
        head, _, rest = block.partition("\n")
        text, _, expected = rest.partition("// EXPECT\n")
        found.append((head.removeprefix("// CASE: "), text.removesuffix("\n"), expected.rstrip()))
    return found


def parameters(*folders: str) -> list[object]:
    """Return a pytest parameter for every case of `folders`."""
    return [
        pytest.param(text, expected, id=f"{path.stem}: {name}")
        for folder in folders
        for path in sorted((GOLDEN / folder).iterdir())
        for name, text, expected in cases(path)
    ]


@pytest.mark.parametrize(("text", "expected"), parameters("parser", "parser_2026"))
def test_a_module_prints_as_expected(text: str, expected: str) -> None:
    module = parse(SourceFile(text), verify=False)
    assert module.to_text(large_constants=True).rstrip() == expected


@pytest.mark.parametrize(("text", "expected"), parameters("parser", "parser_2026"))
def test_a_print_reads_back_as_the_same_print(text: str, expected: str) -> None:
    again = parse(SourceFile(expected), verify=False)
    assert again.to_text(large_constants=True).rstrip() == expected


@pytest.mark.parametrize(("text", "expected"), parameters("errors"))
def test_a_wrong_text_is_explained(text: str, expected: str) -> None:
    with pytest.raises(HloError) as caught:
        parse(SourceFile(text, "m.hlo"), verify=False)
    assert str(caught.value).rstrip() == expected


@pytest.mark.parametrize(("text", "expected"), parameters("parser", "parser_2026"))
def test_elements_of_tuples_read_the_same_in_both_spellings(text: str, expected: str) -> None:
    """Names and order of elements are lost in the compact print; what is computed is not."""
    module = parse(SourceFile(text), verify=False)
    compact = module.to_text(large_constants=True, tuple_style="compact")
    again = parse(SourceFile(compact), verify=False)
    assert again.to_text(large_constants=True, tuple_style="compact") == compact
    twice = parse(SourceFile(again.to_text(large_constants=True)), verify=False)
    assert twice.to_text(large_constants=True, tuple_style="compact") == compact
