"""Executes PTX text with NumPy, and checks every access while it does.

`parse_ptx` reads the text that LLVM prints, `Memory` is the global memory of one simulated device,
`launch` runs a kernel. docs/ptx-interpreter.md says what is checked and what is not modelled.
"""

from hloc.ptx.faults import PtxFault
from hloc.ptx.launch import launch
from hloc.ptx.memory import Memory
from hloc.ptx.metrics import LaunchReport
from hloc.ptx.parser import parse_ptx
from hloc.ptx.program import PtxKernel, PtxModule
from hloc.ptx.stepping import Watch

__all__ = [
    "LaunchReport",
    "Memory",
    "PtxFault",
    "PtxKernel",
    "PtxModule",
    "Watch",
    "launch",
    "parse_ptx",
]
