"""Random modules as C programs under valgrind: no access outside of arrays, no undefined result.

    python -m fuzz.valgrind --modules 1000 [--seed 0]

A module is compiled ahead of time and linked into a C program, many into one. Every argument, every
result and the working memory are heap blocks of exactly their size, and each result is written to a
file: valgrind's memcheck sees a byte read or written outside of a block, a branch on memory that
was never written, and such a byte in a result. Modules that no object can hold are left out.
Prints each faulty seed and the counts; exits with 1 for faults.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fuzz.draft import Array
from fuzz.program import random_program
from hloc.codegen.cpu.aot.header import c_header
from hloc.codegen.cpu.aot.linkable import Library, build_library
from hloc.codegen.cpu.backend import CpuModule
from hloc.driver import generate, optimise
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.options import CompileOptions

PROCESSOR = "x86-64-v3"
"""What valgrind imitates: it has no AVX-512."""

LEVELS = (0, 2)
BATCH = 25
FAULT = 99
SECONDS = 500

VALGRIND = (
    "valgrind", "-q", f"--error-exitcode={FAULT}", "--leak-check=no", "--partial-loads-ok=no",
)  # fmt: skip

DRIVER = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "{p}.h"
static const size_t {p}_in[] = {{{inputs}0}}, {p}_out[] = {{{outputs}0}};
static void {p}_check(FILE *data, int file) {{
  void *in[{P}_INPUTS + 1], *out[{P}_OUTPUTS + 1];
  for (int i = 0; i < {P}_INPUTS; i++) {{
    in[i] = malloc({p}_in[i]);
    if (fread(in[i], 1, {p}_in[i], data) != {p}_in[i]) exit(2);
  }}
  for (int i = 0; i < {P}_OUTPUTS; i++) out[i] = malloc({p}_out[i]);
  void *temp = aligned_alloc({P}_ALIGNMENT, {P}_TEMP_BYTES ? {P}_TEMP_BYTES : 1);
  if ({p}_run((const void *const *)in, out, temp)) exit(3);
  for (int i = 0; i < {P}_OUTPUTS; i++) {{
    if (write(file, out[i], {p}_out[i]) != (ssize_t){p}_out[i]) exit(4);
    free(out[i]);
  }}
  for (int i = 0; i < {P}_INPUTS; i++) free(in[i]);
  free(temp);
}}
"""


@dataclass(frozen=True)
class Case:
    """A module at one level, ready to be linked."""

    name: str
    library: Library
    arguments: Sequence[Array]


def library_of(module: Module, prefix: str, level: int) -> Library:
    """Compile a module ahead of time; raises HloError if no object can hold it."""
    module = clone_module(module)
    options = CompileOptions(opt_level=level, cpu=PROCESSOR, threads=1)
    optimise(module, options)
    compiled = generate(module, options)
    assert isinstance(compiled, CpuModule)
    return build_library(compiled, prefix)


def build(folder: Path, cases: Sequence[Case]) -> None:
    """Write a program that runs the cases whose numbers it is given."""
    source = []
    for case in cases:
        interface = case.library.interface
        (folder / f"{case.name}.o").write_bytes(case.library.data)
        (folder / f"{case.name}.h").write_text(c_header(interface))
        source.append(
            DRIVER.format(
                p=case.name,
                P=case.name.upper(),
                inputs="".join(f"{a.shape.size_bytes}, " for a in interface.arguments),
                outputs="".join(f"{a.shape.size_bytes}, " for a in interface.results),
            )
        )
        (folder / f"{case.name}.bin").write_bytes(
            b"".join(
                in_memory(array, argument.shape.minor_to_major)
                for array, argument in zip(case.arguments, interface.arguments, strict=True)
            )
        )
    calls = "".join(
        f'  if (atoi(argv[i]) == {i}) {c.name}_check(fopen("{c.name}.bin", "rb"), file);\n'
        for i, c in enumerate(cases)
    )
    source.append(
        "#include <fcntl.h>\nint main(int argc, char **argv) {\n"
        f'  int file = open("/dev/null", O_WRONLY);\n  for (int i = 1; i < argc; i++) {{\n{calls}'
        "  }\n  return 0;\n}\n"
    )
    (folder / "main.c").write_text("\n".join(source))
    objects = [f"{case.name}.o" for case in cases]
    subprocess.run(["cc", "-w", "main.c", *objects, "-lm", "-o", "program"], cwd=folder, check=True)


def in_memory(array: Array, minor_to_major: Sequence[int]) -> bytes:
    """Return the bytes of an argument in its layout."""
    return np.ascontiguousarray(array.transpose(tuple(reversed(minor_to_major)))).tobytes()


def faults_of(folder: Path, numbers: Sequence[int]) -> str:
    """Run cases under valgrind; return what it says of them, "" if it is content."""
    done = subprocess.run(
        [*VALGRIND, "./program", *map(str, numbers)],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"exit {done.returncode}\n{done.stderr[:2000]}"


def cases_of(seed: int) -> list[Case]:
    """Return the module of a seed at all levels; [] where no object can hold it."""
    program = random_program(seed)
    try:
        return [
            Case(f"s{seed}_{level}", library_of(program.module, f"s{seed}_{level}", level),
                 program.arguments)
            for level in LEVELS
        ]  # fmt: skip
    except HloError:
        return []


def main(words: Sequence[str]) -> int:
    """Check modules from a seed on; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    found = parser.parse_args(words)
    if not (shutil.which("valgrind") and shutil.which("cc")):
        print("valgrind or a C compiler is missing")
        return 2
    seed, done, left_out, faulty = found.seed, 0, 0, 0
    while done < found.modules:
        cases: list[Case] = []
        while len(cases) < BATCH * len(LEVELS) and done < found.modules:
            more = cases_of(seed)
            seed, done, left_out = seed + 1, done + bool(more), left_out + (not more)
            cases += more
        faulty += check(cases)
        print(f"{done} modules, {left_out} left out, {faulty} faults, next seed {seed}", flush=True)
    return 1 if faulty else 0


def check(cases: Sequence[Case]) -> int:
    """Run cases under valgrind, print those with faults, and return their number."""
    with tempfile.TemporaryDirectory(prefix="hloc-valgrind-") as name:
        folder = Path(name)
        build(folder, cases)
        if not faults_of(folder, range(len(cases))):
            return 0
        said = [(case.name, faults_of(folder, [i])) for i, case in enumerate(cases)]
    faulty = [(name, text) for name, text in said if text]
    for name, text in faulty:
        print(f"seed {name[1:].replace('_', ' at -O')}: {text}", flush=True)
    return len(faulty)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
