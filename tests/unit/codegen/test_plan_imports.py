"""The plan of a program is data: importing what makes it loads neither LLVM nor an emitter."""

import subprocess
import sys

PROGRAM = """
import sys
import hloc.codegen.plan.planning
print(*[name for name in sys.modules if name.startswith(("llvmlite", "hloc."))])
"""


def test_planning_loads_neither_llvmlite_nor_emitters() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    loaded = run.stdout.split()
    assert "hloc.codegen.plan.plan" in loaded
    others = ("llvmlite", "hloc.codegen.cpu", "hloc.codegen.gpu", "hloc.codegen.kernels")
    assert not [name for name in loaded if name.startswith(others)]
