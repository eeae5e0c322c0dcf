"""The processors that tests of vectors compile for: this one, and those with shorter vectors."""

from __future__ import annotations

import pytest

from hloc.codegen.llvm.target import host_target, target_for

IS_X86 = host_target().triple.startswith("x86_64")

PROCESSOR = pytest.mark.parametrize("cpu", ("", "x86-64-v3", "x86-64") if IS_X86 else ("",))
"""That of this machine, and vectors of 256 and of 128 bits."""

TARGETS = (
    [host_target(), target_for(cpu="x86-64-v3"), target_for(cpu="x86-64")]
    if IS_X86
    else [host_target()]
)
"""The same as targets; others than this one may not load parts of all vectors."""

OTHERS = [target_for("x86_64", "haswell"), target_for("x86_64"), target_for("aarch64")]
"""Machines for which code is made, but not run."""
