"""The machine code of the plug-in: translated, compiled once per machine, loaded for good."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hloc.pjrt.abi import STRUCTURES
from hloc.pjrt.machine.getters import getter_sources
from hloc.runtime.translated_code import Machine, load_translated

SOURCES = (
    "events", "memory", "buffers", "executables", "put", "performing", "worker", "execution",
)  # fmt: skip

ENUMS = "PJRT_"
LISTS = {"Storages": "Storage**", "Buffers": "PJRT_Buffer**"}


def sources() -> str:
    """Return the text of all sources."""
    written = (Path(__file__).with_name(f"{name}.py").read_text() for name in SOURCES)
    return "\n".join([*written, *getter_sources()])


@cache
def machine() -> Machine:
    """Return the functions, loaded once in the process.

    They are never unloaded: jaxlib destroys what it holds after Python is gone.
    """
    return load_translated(sources(), STRUCTURES, level=1, lists=LISTS, enums=ENUMS)
