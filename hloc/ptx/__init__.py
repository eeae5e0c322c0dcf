"""Executes PTX text with NumPy, and checks every access.

`parse_ptx` reads the text that LLVM prints, `Memory` is the global memory of one simulated device,
`launch` runs a kernel. docs/ptx-interpreter.md lists the checks and the limits of the model.
"""

from hloc.ptx.faults import PtxFault
from hloc.ptx.launch import launch
from hloc.ptx.memory import Memory
from hloc.ptx.metrics import LaunchReport
from hloc.ptx.program import PtxKernel, PtxModule
from hloc.ptx.stepping import Watch
from hloc.ptx.text.parser import parse_ptx

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
