"""The picture at the top of README.md is a session as hlo-repl prints it now."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from benchmarks import harness, repl_picture


def test_the_picture_of_the_readme_is_current_and_needs_no_network() -> None:
    """`make screens` draws it again after a wanted change of what hlo-repl prints."""
    stored = repl_picture.PICTURE.read_text()
    assert repl_picture.picture() == stored
    assert "http" not in stored.replace("http://www.w3.org/2000/svg", "")
    words = "".join(ET.fromstring(stored).itertext())
    assert "s0\u00a0≡\u00a0s3\u00a0on" in words
    assert "docs/screens/repl.svg" in (harness.ROOT / "README.md").read_text()
