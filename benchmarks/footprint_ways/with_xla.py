"""Compile a module with XLA:CPU of jaxlib and run it: `python with_xla.py FILE.hlo FOLDER`."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

from benchmarks import xla
from benchmarks.footprint_ways.files import load, save

if __name__ == "__main__":
    module, folder = sys.argv[1:]
    # The modules have one type that NumPy lacks, and one array of it.
    arrays = [a.view(ml_dtypes.bfloat16) if a.dtype.kind in "Vu" else a for a in load(folder)]
    results = xla.compiled(Path(module).read_text(), arrays)()
    assert isinstance(results, list)
    parts = (result[0] if isinstance(result, list) else result for result in results)
    save(folder, [np.asarray(part) for part in parts])
