"""Run a benchmark as on an older processor: newer instruction sets are hidden from all compilers.

    python benchmarks/as_processor.py avx2 benchmarks/bench_suite.py gelu_tanh
    python benchmarks/as_processor.py avx512 -m hloc cache --fill=package

runs Python with the words after the name of the processor. hloc and XLA, with the libraries it
calls, choose their code by the CPUID instruction, which reports fewer features in that process and
in those it starts (`as_processor.c`). Speeds of memory, caches and clock stay those of this
machine; results and history name both. Needs Linux on an Intel processor, and a C compiler. The
handler of SIGSEGV is taken: pytest runs with `-p no:faulthandler`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

SIMULATED = "HLOC_SIMULATED_PROCESSOR"
"""The variable of the environment that names the processor, for `harness.machine`."""

_SOURCE = Path(__file__).with_suffix(".c")


def _bits(*numbers: int) -> int:
    return sum(1 << number for number in numbers)


_AFTER_AVX512 = {
    "7_B": 0,
    "7_C": 0,
    "7_D": _bits(22, 23, 24, 25),  # amx-bf16, avx512fp16, amx-tile, amx-int8
    "7_1_A": _bits(5, 21, 23),  # avx512bf16, amx-fp16, avxifma
    "7_1_D": _bits(4, 5, 8, 10, 19),  # avxvnniint8, avxneconvert, amx-complex, avxvnniint16, avx10
    "STATE": _bits(17, 18),  # registers of matrices
}
_AFTER_AVX2 = {
    "7_B": _bits(16, 17, 21, 26, 27, 28, 30, 31),  # avx512: f, dq, ifma, pf, er, cd, bw, vl
    "7_C": _bits(1, 6, 11, 12, 14),  # avx512: vbmi, vbmi2, vnni, bitalg, vpopcntdq
    "7_D": _bits(2, 3, 8),  # avx512: 4vnniw, 4fmaps, vp2intersect
    "7_1_A": _bits(4),  # avxvnni
    "7_1_D": 0,
    "STATE": _bits(5, 6, 7),  # masks and wide registers
}
PROCESSORS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "avx512": ("AVX-512 without AMX", _AFTER_AVX512),
    "avx2": ("AVX2", {name: bits | _AFTER_AVX512[name] for name, bits in _AFTER_AVX2.items()}),
}
"""For each processor its title, and the bits of CPUID that are hidden."""


def main() -> int:
    """Run Python as the command line asks; the exit code is its own."""
    if len(sys.argv) < 3 or sys.argv[1] not in PROCESSORS:
        sys.exit(f"usage: as_processor.py {'|'.join(PROCESSORS)} PYTHON_ARGUMENT...")
    return run(sys.argv[1], sys.argv[2:])


def run(processor: str, arguments: list[str]) -> int:
    """Run Python with `arguments` as on `processor`; returns the exit code."""
    title, hidden = PROCESSORS[processor]
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "as_processor.so"
        macros = [f"-DHIDE_{name}={bits:#x}u" for name, bits in hidden.items()]
        compiler = os.environ.get("CC", "cc")
        options = ["-O1", "-shared", "-fPIC", *macros, "-o", str(library), str(_SOURCE)]
        subprocess.run([compiler, *options], check=True)
        environment = os.environ | {"LD_PRELOAD": str(library), SIMULATED: title}
        return subprocess.run([sys.executable, *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
