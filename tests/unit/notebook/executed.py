"""Runs notebooks in a kernel of their own."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
Outputs = list[dict[str, Any]]


def executed(cells: list[str], folder: Path) -> list[Outputs]:
    """Return the outputs of code cells that run one after the other, faults included."""
    nbformat = pytest.importorskip("nbformat", reason="runs notebooks")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    return [cell.outputs for cell in run(book, folder).cells]


def run(book: Any, folder: Path) -> Any:
    """Return a notebook after all its cells have run in `folder`; skip without Jupyter."""
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason="runs notebooks")
    from nbclient import NotebookClient

    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        book, timeout=PATIENCE, kernel_name="python3", allow_errors=True, resources=place
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    return client.execute(env=env)


def text_of(outputs: Outputs) -> str:
    """Return what a cell printed, and its faults."""
    parts = []
    for output in outputs:
        parts.append(output.get("text", ""))
        parts += output.get("traceback", [])
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(filter(None, parts))


def html_of(outputs: Outputs) -> str:
    """Return what a cell drew."""
    return "\n".join(output.get("data", {}).get("text/html", "") for output in outputs)
