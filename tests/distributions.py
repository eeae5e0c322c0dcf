"""Distributions that look installed: folders on the import path with what pip writes there."""

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    name: str,
    version: str,
    backends: Mapping[str, str],
    *paths: Path,
) -> None:
    """Let package `name` offer `backends` (name -> "module:Class"); `paths` hold its modules."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{backend} = {where}\n" for backend, where in backends.items()]
    (info / "entry_points.txt").write_text("".join(["[hloc.backends]\n", *lines]))
    for path in (folder, *paths):
        monkeypatch.syspath_prepend(str(path))
