"""Copies a few dumped programs into `programs/`, for the default run.

    python -m benchmarks.sharded.dump FOLDER && python -m tests.sharded.committed FOLDER/shardy

The texts lose their metadata, which names files of the machine that dumped them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np

PROGRAMS = Path(__file__).with_name("programs")
NAMES = (
    "branch_by_group",
    "data_parallel_gradient",
    "devices_in_another_order",
    "embedding_vocabulary_split",
    "experts_by_all_to_all",
    "partly_manual_sum",
    "scatters_in_groups",
    "uneven_sum",
)

_TABLES = re.compile(r"\nFileNames\n.*?\n\n\n", re.DOTALL)
_METADATA = re.compile(r', metadata=\{(?:[^{}"]|"[^"]*")*\}')


def main() -> None:
    """Copy the programs from the folder that is given."""
    folder = Path(sys.argv[1])
    rows = json.loads((folder / "index.json").read_text())
    PROGRAMS.mkdir(exist_ok=True)
    for name in NAMES:
        for kind in ("hlo", "partitioned.hlo"):
            text = (folder / f"{name}.{kind}").read_text()
            (PROGRAMS / f"{name}.{kind}").write_text(_METADATA.sub("", _TABLES.sub("\n", text)))
        with np.load(folder / f"{name}.npz") as arrays:
            np.savez_compressed(PROGRAMS / f"{name}.npz", allow_pickle=False, **arrays)
    chosen = {name: rows[name] for name in NAMES}
    (PROGRAMS / "index.json").write_text(json.dumps(chosen, indent=1) + "\n")


if __name__ == "__main__":
    main()
