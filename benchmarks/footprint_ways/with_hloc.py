"""Compile a module with hloc and run it: `python with_hloc.py FILE.hlo FOLDER`."""

import sys
from pathlib import Path

import numpy as np

import hloc
from benchmarks.footprint_ways.files import load, save

if __name__ == "__main__":
    module, folder = sys.argv[1:]
    run = hloc.compile(Path(module).read_text())
    arrays = zip(load(folder), run.parameters, strict=True)
    results = run(*(array.view(spec.numpy) for array, spec in arrays))
    save(folder, [np.asarray(result) for result in results])
