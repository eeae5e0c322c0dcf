"""The elements of literals: from tokens to values of a type, as XLA reads them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hloc.dtypes import DType, component_of
from hloc.parser.grammar_file import terminal

NUMBER = rf"(?:{terminal('DECIMAL')}|{terminal('INT')})"
_NUMBERS = re.compile(rf"(?:{NUMBER}[ ]?)*+")
_INTEGER = re.compile(terminal("INT"))
_NAN_PAYLOAD = re.compile(r"(-?)nan(?:\(0x([0-9a-fA-F]++)\))?")
_NAN_PAYLOADS = frozenset({"f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3", "f8e3m4"})


class BadElement(Exception):
    """Element number `index` is wrong."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def elements_of(tokens: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the values of `tokens`, two for each complex value, as `dtype`.

    Raises:
        BadElement: for the first wrong token.
    """
    if dtype.is_pred:
        return np.array([_pred(i, token) for i, token in enumerate(tokens)], np.bool_)
    if dtype.is_integer:
        return _integers(tokens, dtype)
    if dtype.is_complex:
        return _pairs(tokens, dtype)
    return _floats(tokens, dtype)


def _pred(index: int, token: str) -> bool:
    if token in ("true", "false"):
        return token == "true"
    if not _INTEGER.fullmatch(token):
        raise BadElement(index, f"expected true, false or an integer but found {token}")
    return _int64(index, token) != 0


def _integers(tokens: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the elements of an integer type.

    Raises:
        BadElement: not an integer, or out of the type's range.
    """
    low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
    high = 2 ** (dtype.bits - 1) - 1 if dtype.is_signed else 2**dtype.bits - 1
    if dtype.bits == 64:  # XLA reads 64 bits and ignores the sign
        low, high = -(2**63), 2**64 - 1
    values = []
    for index, token in enumerate(tokens):
        if not _INTEGER.fullmatch(token):
            raise BadElement(index, f"expected an integer but found {token}")
        value = _value(token)
        if not low <= value <= high:
            raise BadElement(
                index, f"value {token} is out of range for {dtype.name}, namely [{low}, {high}]"
            )
        values.append(value)
    if dtype.bits == 64:
        return np.array([value % 2**64 for value in values], np.uint64).view(dtype.numpy)
    return np.array(values, np.int64).astype(dtype.numpy)


def _floats(tokens: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Return the elements of a float type, converted all at once.

    Texts of more than 18 characters and NaNs with payloads are rare, and read one by one first.

    Raises:
        BadElement: a finite number is out of the type's range.
    """
    joined = " ".join(tokens)
    nans: list[tuple[int, str]] = []
    if not _NUMBERS.fullmatch(joined) or len(max(tokens, key=len, default="")) > 18:
        tokens, nans = _cleaned(tokens)
    wide = np.array(list(map(float, tokens)), np.float64)
    if not np.isfinite(wide).all():
        index = int(np.argmin(np.isfinite(wide)))
        if "inf" not in tokens[index] and "nan" not in tokens[index]:
            raise BadElement(index, f"{tokens[index]} is beyond the range of a double")
    # Through f32, as XLA rounds; only f32 and f64 are rounded once.
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(np.float32) if dtype.name in ("f16", "bf16") else wide
        values = narrow.astype(dtype.numpy)
        lost = np.isfinite(wide) & ~np.isfinite(values.astype(np.float64))
    if lost.any():
        index = int(np.argmax(lost))
        raise BadElement(index, f"value {tokens[index]} is out of range for {dtype.name}")
    for index, token in nans:
        _set_nan(values, index, token, dtype)
    return values


def _pairs(tokens: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    """Return complex values; where the real part is NaN, the other is, too, as in XLA."""
    parts = _floats(tokens, component_of(dtype))
    real, imaginary = parts[::2], parts[1::2]
    is_nan = np.isnan(real)
    imaginary[is_nan] = real[is_nan]
    return parts.view(dtype.numpy)


def _cleaned(tokens: list[str]) -> tuple[list[str], list[tuple[int, str]]]:
    """Check every token; return them for `float`, and the NaNs with their indices."""
    out, nans = [], []
    for index, token in enumerate(tokens):
        if _NAN_PAYLOAD.fullmatch(token):
            nans.append((index, token))
            out.append("nan")
        elif token in ("inf", "-inf"):
            out.append(token)
        elif _INTEGER.fullmatch(token):
            out.append(_wrapped(index, token))
        elif re.fullmatch(NUMBER, token):
            out.append(token)
        else:
            raise BadElement(index, f"expected a number but found {token}")
    return out, nans


def _wrapped(index: int, token: str) -> str:
    """Return an integer read with 64 bits: 2^63 and above become negative, as in XLA.

    `-0` keeps its sign: XLA and JAX print -0.0 so.
    """
    value = _int64(index, token)
    return "-0" if value == 0 and token.startswith("-") else str(value)


def _int64(index: int, token: str) -> int:
    value = _value(token)
    if not -(2**63) <= value < 2**64:
        raise BadElement(index, f"{token} does not fit in 64 bits; write it with a decimal point")
    return value - 2**64 if value >= 2**63 else value


def _value(token: str) -> int:
    """Return the integer `token`; 2^70 for one that is beyond 64 bits, however long."""
    if len(token) > 20:
        token = token[0].replace("0", "") + token[1:].lstrip("0") or "0"
    return int(token) if len(token) <= 21 else 2**70


def _set_nan(values: np.ndarray[Any, Any], index: int, token: str, dtype: DType) -> None:
    """Give the NaN at `index` the sign and payload of `token`."""
    found = _NAN_PAYLOAD.fullmatch(token)
    assert found is not None
    negative = found.group(1) == "-"
    payload = None if found.group(2) is None else int(found.group(2), 16)
    if payload is None and not negative:
        return
    limit = 2**dtype.mantissa_bits - 1
    exponent = (1 << dtype.exponent_bits) - 1
    has_payloads = dtype.name in _NAN_PAYLOADS
    if payload is not None and (payload == 0 or payload > limit or not has_payloads):
        raise BadElement(index, f"NaN payload 0x{payload:x} does not fit in {dtype.name}")
    if not has_payloads:
        if negative and dtype.name in ("f8e4m3fn", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"):
            values.view(np.uint8)[index] ^= 1 << (dtype.bits - 1)
        return
    bits = np.zeros(1, f"u{dtype.storage_bytes}")
    quiet = 1 << (dtype.mantissa_bits - 1)
    bits[0] = (
        (int(negative) << (dtype.bits - 1))
        | (exponent << dtype.mantissa_bits)
        | (quiet if payload is None else payload)
    )
    values.view(bits.dtype)[index] = bits[0]
