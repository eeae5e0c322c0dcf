"""Code that LLVM cannot compile for scalable vectors."""

from __future__ import annotations

import re

from hloc.codegen.llvm.object_file import with_features
from hloc.codegen.llvm.target import Target

_BELOW_A_BYTE = re.compile(r"\bi[24]\b")


def without_scalable(text: str, machine: Target) -> str:
    """Return LLVM text for `machine`, with SVE disabled in functions that require that.

    LLVM's code generator fails on the extension of a vector of `i4` with SVE (seen with LLVM 20).
    """
    if "+sve" not in machine.features or not _BELOW_A_BYTE.search(text):
        return text
    return with_features(text, machine.cpu, f"{machine.features},-sve")
