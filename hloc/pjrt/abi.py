"""C structures of the plug-in: offsets for machine code, ctypes classes for Python.

`abi_table.py` holds those of the PJRT C API, `objects.py` those behind its handles.
"""

from __future__ import annotations

from hloc.codegen.llvm.structures import Structures
from hloc.pjrt.abi_from_header import HEAD_FIELDS
from hloc.pjrt.abi_table import TABLE
from hloc.pjrt.objects import OBJECTS

MAJOR_VERSION, MINOR_VERSION = 0, 90
"""The version of the C API that the plug-in reports.

With it, jaxlib calls no function of a later version, and accesses the structures of errors and
memories through functions, not directly (as since 0.105 and 0.107).
"""

LAST_FUNCTION = "PJRT_Event_Set"
"""The last function of `PJRT_Api` in that version."""

STRUCTURES = Structures(
    f"{TABLE}{OBJECTS}".replace("...", ", ".join(HEAD_FIELDS)),
    {"PJRT_LoadedExecutable": "PJRT_Executable"},
)
enum = STRUCTURES.enum
layout = STRUCTURES.layout
structure = STRUCTURES.structure
