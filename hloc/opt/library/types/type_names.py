"""Element types as options of passes."""

from __future__ import annotations

from hloc.dtypes import DTYPES, DType
from hloc.errors import HloError


def float_named(pass_name: str, name: str) -> DType:
    """Return the float type called `name`.

    Raises:
        HloError: there is none.
    """
    dtype = DTYPES.get(name)
    if dtype is None or not dtype.is_float:
        raise HloError(f"pass {pass_name} needs a float type such as bf16, but got {name!r}")
    return dtype
