"""Build hook: an installation from the sources brings the routines of its machine, compiled.

`pip install .` and `pip install -e .` fill `hloc/prebuilt/`, where
`hloc/codegen/llvm/object_cache.py` looks first, and `hloc/parser/tables.py` for the tables of the
grammar. HLOC_PREBUILT=0 leaves it out: for wheels that go to other machines, which would find
nothing there that fits. Whatever goes wrong is told and is no fault: programs make these files
themselves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TIME_LIMIT_SECONDS = 600

_FILL = """
import sys
from pathlib import Path
try:
    from hloc.codegen.llvm.target import host_target
    from hloc.parser.table_fill import fill_tables
    from hloc.runtime.routine_fill import fill_directory
    filled = fill_directory(Path(sys.argv[1]), host_target())
    fill_tables(Path(sys.argv[1]))
except Exception as fault:
    sys.exit(f"{type(fault).__name__}: {fault}".splitlines()[0])
print(filled.compiled + filled.present)
"""


class RoutineHook(BuildHookInterface):  # type: ignore[misc]
    """Compiles in a process of its own, which may fail as it likes."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fill the folder in the checkout (`pip install -e .`) or one that goes into the wheel."""
        self._made: Path | None = None
        if self.target_name != "wheel" or os.environ.get("HLOC_PREBUILT") == "0":
            return
        root = Path(self.root)
        if version == "editable":
            note = fill(root, root / "hloc" / "prebuilt")
        else:
            self._made = Path(tempfile.mkdtemp(prefix="hloc-"))
            note = fill(root, self._made)
            build_data["force_include"][str(self._made)] = "hloc/prebuilt"
        self.app.display_info(note)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what lies in the wheel now."""
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def fill(root: Path, directory: Path) -> str:
    """Compile the routines with the sources in `root` into `directory`; return what to tell."""
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", _FILL, str(directory)]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as fault:
        return f"no routines were compiled: {fault}"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return f"no routines were compiled: {reason}"
    return f"{done.stdout.strip()} routines compiled for this machine"
