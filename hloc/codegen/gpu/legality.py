"""Checks of LLVM text for GPU backends, which end the process on intrinsics that they lack.

They also take unknown names for external functions, which only an assembler refuses. So every name
that a kernel declares must be in a list here, or have the prefix of its target's intrinsics.
"""

from __future__ import annotations

import re

from hloc.errors import InternalError

_DECLARED = re.compile(r"^declare [^@]*@([\w.$]+)", re.MULTILINE)

_FLOAT = """
    sqrt fma fmuladd floor ceil trunc rint nearbyint round roundeven fabs copysign minimum maximum
    minnum maxnum minimumnum maximumnum
"""
_INTEGER = """
    smin smax umin umax abs ctpop ctlz cttz bitreverse bswap fshl fshr sadd.sat uadd.sat ssub.sat
    usub.sat fptosi.sat fptoui.sat smul.with.overflow umul.with.overflow sadd.with.overflow
    uadd.with.overflow ssub.with.overflow usub.with.overflow is.fpclass
"""
_OTHER = """
    memcpy memmove memset launder.invariant.group arithmetic.fence assume lifetime.start
    lifetime.end expect experimental.noalias.scope.decl
    masked.load masked.store masked.gather masked.scatter vector.reduce
"""

ALLOWED: tuple[str, ...] = tuple(f"llvm.{name}" for name in (_FLOAT + _INTEGER + _OTHER).split())
"""The functions that a kernel may declare, without the type suffixes of their names."""


def check_legal(text: str, own: str) -> None:
    """Check that LLVM text declares nothing that would end the process.

    Args:
        text: of the kernel and its prelude.
        own: prefix of the target's own intrinsics, such as `llvm.nvvm`.

    Raises:
        InternalError: it does; the message names the function.
    """
    allowed = (*ALLOWED, own)
    for name in _DECLARED.findall(text):
        if not any(name == known or name.startswith(f"{known}.") for known in allowed):
            raise InternalError(f"@{name} is not a function that GPU code may call")
