"""What tests of kernels by warpgroups share: changed PTX, and what the assembler says of it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hloc.codegen.gpu.nvptx import cubin
from hloc.codegen.gpu.nvptx.backend import NvptxModule

CHIP = "sm_90a"
"""The chip that has warpgroups."""

needs_assembler = pytest.mark.skipif(
    not cubin.can_assemble(), reason="neither nvJitLink nor ptxas is installed"
)
needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")


def changed(ptx: str, side: str, pattern: str, wrong: str, which: int = 1) -> str:
    """Return PTX in which one match of a pattern is changed.

    Args:
        ptx: a kernel of several warpgroups.
        side: `inc` or `dec`, the code of those that take registers or give them away; "" for what
            all do before.
        pattern: a regular expression.
        wrong: what stands for the match, with its groups.
        which: number of the match, from 1.
    """
    parts = re.split(r"(?=setmaxnreg\.)", ptx)
    starts = {
        part[: len("setmaxnreg.inc")].removeprefix("setmaxnreg."): i
        for i, part in enumerate(parts)
        if i
    }
    number = starts[side] if side else 0
    match = list(re.finditer(pattern, parts[number]))[which - 1]
    before, after = parts[number][: match.start()], parts[number][match.end() :]
    parts[number] = before + match.expand(wrong) + after
    return "".join(parts)


def check_registers(module: NvptxModule, products: str) -> None:
    """Check that nothing is spilled, and that nothing but products touches their sums.

    The assembler would wait after each product. `products` is a regular expression for the loop
    with its products, which it captures.
    """
    uses = cubin.assemble(module.ptx, CHIP).uses
    assert all(use.spill_bytes == 0 for use in uses.values())
    assert all(use.registers <= 168 for use in uses.values())
    check_shared_bytes(module)
    loop = re.search(products, module.ptx)
    assert loop is not None
    assert not re.search(r"mov\S* \t%r\d+, %r", loop[1])


def check_shared_bytes(module: NvptxModule) -> None:
    """Check that the shared memory of functions with tensor maps fits a block."""
    functions = [f for kernel in module.kernels for f in kernel.functions if f.tiled]
    assert functions
    assert all(f.dynamic_shared_bytes <= 227 << 10 for f in functions)


def check_warnings(ptx: str, folder: Path) -> None:
    """Check that ptxas spills nothing, and does not say that it makes products one by one."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = ["ptxas", f"-arch={CHIP}", "-v", str(source), "-o", str(folder / "kernel.cubin")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}, said
    assert not re.search("warning|serialized|ignored", said, re.IGNORECASE), said
