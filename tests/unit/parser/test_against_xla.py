"""The golden prints are XLA's: jaxlib reads every golden text and prints the same."""

import pytest

from hloc.parser import parse
from hloc.source import SourceFile
from tests.unit.parser.test_golden import parameters

hlo = pytest.importorskip("jaxlib._hlo")


@pytest.mark.jax
@pytest.mark.parametrize(("text", "expected"), parameters("parser"))
def test_jaxlib_prints_the_same(text: str, expected: str) -> None:
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    assert hlo.hlo_module_from_text(text).to_string(options).rstrip() == expected


@pytest.mark.jax
@pytest.mark.parametrize(("text", "_expected"), parameters("parser"))
@pytest.mark.parametrize("style", ["short", "canonical"])
def test_other_styles_are_those_of_jaxlib(text: str, _expected: str, style: str) -> None:
    options = getattr(hlo.HloPrintOptions, {"short": "short_parsable"}.get(style, style))()
    printed = parse(SourceFile(text), verify=False).to_text(style)
    assert printed == hlo.hlo_module_from_text(text).to_string(options)
