"""Input specs: `3.5`, `[1,2,3]`, `@x.npy`, `normal(0,1)`, `special` and others.

`4xf32=@x.npy` also gives the type, which is then checked.
"""

from __future__ import annotations

import json
import re
import zipfile
from os.path import expanduser
from typing import Any

import numpy as np

from hloc.analysis.extract import find_instruction
from hloc.dtypes import Array
from hloc.errors import HloError, reason_of
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes
from hloc.report.index_ranges import index_limits
from hloc.report.inputs import (
    DAMAGES,
    check_unpacked,
    parameter_leaves,
    random_input,
    random_inputs,
    special_input,
    storage_type,
)
from hloc.shapes import ArrayShape, leaves

KINDS = (
    "3.5", "[1,2,3]", "@x.npy", "@all.npz:w", "zeros", "ones", "iota", "normal(0,1)",
    "uniform(-1,1)", "ints(0,100)", "special", "random", "like-index(%gather)",
)  # fmt: skip

_CALL = re.compile(r"(normal|uniform|ints)\(\s*([^,()]+),\s*([^,()]+)\)")
_TYPED = re.compile(r"((?:\d+x)*)([a-z]\w*)=(.+)", re.DOTALL)
_LIKE_INDEX = re.compile(r"like-index\(\s*(%?[\w.\-]+)\s*\)")
_INDEXING = ("gather", "scatter", "dynamic-slice", "dynamic-update-slice")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+|inf|nan)|true|false")
_JSON_NAMES = re.compile(r"\b(?:inf|nan)\b")
_MOST_LETTERS = 100_000
_MAGIC = (b"\x93NUMPY", b"PK\x03\x04")  # of one array, and of an archive


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array that the module takes; any of `names` selects it, the first is shown."""

    number: int
    names: tuple[str, ...]
    shape: ArrayShape


def parameters_of(module: Module) -> tuple[Parameter, ...]:
    """Return the arrays that `module` takes: `x`, or `p.0.1` for a leaf of a tuple."""
    found: list[Parameter] = []
    for inst in module.entry.parameters:
        for index, leaf in leaves(inst.shape):
            shape = leaf if isinstance(leaf, ArrayShape) else leaf.array
            if not shape.dtype.is_special:
                name = ".".join((inst.name, *map(str, index)))
                number = len(found)
                found.append(Parameter(number, (name, f"arg{number}", str(number)), shape))
    return tuple(found)


def find_parameter(module: Module, name: str) -> Parameter:
    """Return the parameter called `name`.

    Raises:
        HloError: there is none.
    """
    known = parameters_of(module)
    wanted = name.removeprefix("%")
    for parameter in known:
        if wanted in parameter.names:
            return parameter
    shown = [p.names[0] for p in known]
    note = near_name_notes(wanted, shown) or (f"it takes {', '.join(shown[:8]) or 'nothing'}",)
    raise HloError(f"the module takes no {wanted!r}", notes=note)


def array_of(spec: str, parameter: Parameter, module: Module, seed: int) -> Array:
    """Return the array that `spec` describes for `parameter` of `module`.

    Raises:
        HloError: the text is not a valid spec, or the file does not fit.
    """
    if len(spec) > _MOST_LETTERS:
        raise HloError(f"an input has at most {_MOST_LETTERS} letters; use @FILE.npy")
    type_text, text = _without_type(spec)
    if type_text:
        _check_type(type_text, parameter)
    shape = parameter.shape
    limit = index_limits(module).get(parameter.number)
    rng = np.random.default_rng([seed, parameter.number, 2])
    if text in ("random", "special"):
        make = random_input if text == "random" else special_input
        return make(shape, parameter.number, seed, limit)
    indexed = _LIKE_INDEX.fullmatch(text)
    if indexed:
        return _indices(indexed[1], limit, shape, module, rng)
    if text in ("zeros", "ones"):
        return np.full(shape.dims, text == "ones").astype(shape.dtype.numpy)
    if text == "iota":
        return _cast(np.arange(shape.elements, dtype=np.int64).reshape(shape.dims), shape)
    if text.startswith("@"):
        return _from_file(text[1:], shape)
    if text.startswith("["):
        return _listed(text, shape)
    if _NUMBER.fullmatch(text):
        return _cast(np.full(shape.dims, _number(text)), shape)
    call = _CALL.fullmatch(text)
    if call is None:
        raise HloError(f"cannot read the input {text!r}", notes=(f"forms: {', '.join(KINDS)}",))
    low, high = _number(call[2]), _number(call[3])
    return _drawn(call[1], low, high, shape, rng, limit)


def file_of(spec: str) -> str:
    """Return the path of the file that `spec` takes an array from, "" if it takes it from none."""
    text = _without_type(spec)[1]
    return text[1:].partition(":")[0] if text.startswith("@") else ""


def _without_type(spec: str) -> tuple[str, str]:
    """Return the type before a spec, "" if there is none, and the rest."""
    text = spec.strip()
    typed = _TYPED.fullmatch(text)
    if typed is None or text.startswith("@"):
        return "", text
    return typed[1] + typed[2], typed[3]


def _indices(
    name: str, limit: int | None, shape: ArrayShape, module: Module, rng: np.random.Generator
) -> Array:
    """Return indices in the range of all that they index, the instruction `name` included."""
    inst = find_instruction(module, name)
    if limit is None or not inst.is_a(*_INDEXING):
        raise HloError(
            f"the parameter is no index, or {inst.name} is none of {', '.join(_INDEXING)}"
        )
    return _cast(rng.integers(0, max(0, limit) + 1, shape.dims), shape)


def uniform_set(module: Module, seed: int) -> list[Array]:
    """Return inputs with floats from -1 to 1, and other types as in `random_inputs`."""
    arrays = random_inputs(module, seed)
    for number, shape in enumerate(parameter_leaves(module)):
        if shape.dtype.is_float:
            rng = np.random.default_rng([seed, number, 2])
            arrays[number] = _drawn("uniform", -1.0, 1.0, shape, rng, None)
    return arrays


def _drawn(
    kind: str, low: float, high: float, shape: ArrayShape, rng: np.random.Generator,
    limit: int | None,
) -> Array:  # fmt: skip
    """Return random numbers; for integer types whole ones, in the range of what they index."""
    if kind == "normal":
        if not high >= 0 or not np.isfinite([low, high]).all():
            raise HloError(
                "normal(MEAN,DEVIATION) takes a finite mean and a deviation of 0 or more"
            )
        return _cast(rng.normal(low, high, shape.dims), shape)
    if not low <= high or not np.isfinite([low, high]).all():
        raise HloError(f"{kind}(LOW,HIGH) needs LOW below HIGH")
    if kind == "uniform" and not shape.dtype.is_integer:
        return _cast(rng.uniform(low, high, shape.dims), shape)
    if max(abs(low), abs(high)) >= 1 << 62:
        raise HloError(f"{kind} takes numbers below 2**62")
    last = int(high) if limit is None else min(int(high), limit)
    return _cast(rng.integers(min(int(low), last), last + 1, shape.dims), shape)


def _cast(values: Any, shape: ArrayShape) -> Array:
    with np.errstate(all="ignore"):
        if shape.dtype.is_pred:
            return np.asarray(np.asarray(values) != 0)
        found = np.asarray(values)
        if shape.dtype.is_integer and found.dtype.kind == "f":
            if not np.isfinite(found).all():
                raise HloError(f"{shape.text_without_layout} has no NaN or infinity")
            found = found.astype(np.int64)
        return np.asarray(found.astype(shape.dtype.numpy))


def _number(text: str) -> float:
    """Return a number: integers of up to 64 bits are exact."""
    if text in ("true", "false"):
        return float(text == "true")
    if re.fullmatch(r"[-+]?\d+", text) and -(1 << 63) <= int(text) < 1 << 64:
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise HloError(f"expected a number, found {text!r}") from None


def _listed(text: str, shape: ArrayShape) -> Array:
    try:
        values = np.array(json.loads(_JSON_NAMES.sub(_json_name, text)))
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise HloError(f"cannot read the list {text[:60]!r}") from None
    if values.dtype.kind not in "biufc":
        raise HloError(f"the list {text[:60]!r} contains something other than numbers")
    if values.size != shape.elements:
        raise HloError(
            f"the list has {values.size} elements, expected {shape.elements} for "
            f"{shape.text_without_layout}"
        )
    return _cast(values.reshape(shape.dims), shape)


def _json_name(found: re.Match[str]) -> str:
    """Return inf and nan in the form that Python's JSON parser knows."""
    return "NaN" if found[0] == "nan" else "Infinity"


def _check_type(text: str, parameter: Parameter) -> None:
    wanted = "x".join((*map(str, parameter.shape.dims), parameter.shape.dtype.name))
    if text != wanted:
        raise HloError(f"{parameter.names[0]} is {wanted}, not {text}")


def _from_file(text: str, shape: ArrayShape) -> Array:
    """Return the array of an `.npy` or `.npz` file (`PATH:NAME`), cast to the shape's type.

    Raises:
        HloError: no such file or array, damaged, or of other dimensions.
    """
    path, _, name = text.partition(":")
    try:
        with open(expanduser(path), "rb") as file:
            if not file.read(len(_MAGIC[0])).startswith(_MAGIC):
                raise HloError(f"{path} is not a file from numpy.save or numpy.savez")
        stored = np.load(expanduser(path), allow_pickle=False)
        if isinstance(stored, np.ndarray):
            array: Array = stored
        else:
            names = stored.files
            if name not in names and len(names) != 1:
                raise HloError(f"{path} has {', '.join(names[:8])}: choose one with @{path}:NAME")
            check_unpacked(stored, name or names[0], shape, path)
            array = stored[name or names[0]]
    except OSError as fault:
        raise HloError(f"cannot read {path}: {reason_of(fault)}") from None
    except (*DAMAGES, zipfile.BadZipFile) as fault:
        raise HloError(f"cannot read {path}: {fault}") from None
    if array.shape != shape.dims:
        raise HloError(
            f"{path} has dimensions {list(array.shape)}, expected {shape.text_without_layout}"
        )
    if array.dtype == storage_type(shape.dtype) != shape.dtype.numpy and array.dtype.kind == "u":
        return np.ascontiguousarray(array).view(shape.dtype.numpy)
    return _cast(array, shape)
