"""Parameters of a module that become constants: weights that do not change from call to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hloc.errors import HloError
from hloc.ir.attributes import ModuleConfig
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.literal import Literal
from hloc.opt.make import make
from hloc.shapes import ArrayShape


def bind_parameters(module: Module, values: Mapping[int, Any] | Mapping[str, Any]) -> Module:
    """Return a new module in which parameters of the entry computation are constants.

    The other parameters are numbered from 0 again, in their order. Arrays that can be written are
    copied.

    Args:
        module: it is not changed.
        values: parameter, by number or name -> array of its sizes and type.

    Raises:
        HloError: there is no such parameter, it is a tuple or shares memory with a result, or the
            array does not fit.
    """
    module = clone_module(module)
    entry, before = module.entry, module.entry.parameters
    bound = {_parameter(before, key): value for key, value in values.items()}
    left = [parameter for parameter in before if parameter not in bound]
    config = _config(module.config, before, left)
    with module.log.acting("bind"):
        for parameter, value in bound.items():
            literal = _literal(parameter, value)
            entry.replace(parameter, make(entry, "constant", parameter.shape, literal=literal))
            entry.remove(parameter)
        for number, parameter in enumerate(left):
            entry.set_attributes(parameter, replace(parameter.attributes, number=number))
        module.set_config(config)
    return module


def _parameter(parameters: Sequence[Instruction], key: int | str) -> Instruction:
    """Return the parameter of a number or name."""
    for number, parameter in enumerate(parameters):
        if key in (number, parameter.name):
            return parameter
    names = ", ".join(parameter.name for parameter in parameters)
    raise HloError(f"there is no parameter {key!r}; parameters are {names or 'none'}")


def _literal(parameter: Instruction, value: Any) -> Literal:
    """Return the value of a parameter, which later changes of the array do not reach."""
    shape = parameter.shape
    if not isinstance(shape, ArrayShape) or shape.dynamic:
        raise HloError(f"parameter {parameter.name} is no array of fixed sizes: {shape}")
    array = np.asarray(value)
    if array.dtype != shape.dtype.numpy or array.shape != shape.dims:
        wanted = shape.text_without_layout
        sizes = ",".join(map(str, array.shape))
        raise HloError(f"parameter {parameter.name} is {wanted}, not {array.dtype}[{sizes}]")
    owned = array.copy() if array.flags.writeable else array
    owned.flags.writeable = False
    return Literal(shape, owned)


def _config(
    config: ModuleConfig, before: Sequence[Instruction], left: Sequence[Instruction]
) -> ModuleConfig:
    """Return the header for the parameters that are left."""
    numbers = {before.index(parameter): number for number, parameter in enumerate(left)}
    for old in (*(a.parameter for a in config.aliases), *(n for n, _ in config.buffer_donors)):
        if old not in numbers:
            name = before[old].name
            raise HloError(f"parameter {name} shares memory with a result; it cannot be constant")
    layout, shardings = config.entry_layout, config.propagate_sharding_to_parameters
    if layout is not None:
        layout = replace(layout, parameters=tuple(layout.parameters[old] for old in numbers))
    if len(shardings) == len(before) > 1:
        shardings = tuple(shardings[old] for old in numbers) or (False,)
    return replace(
        config,
        aliases=tuple(replace(a, parameter=numbers[a.parameter]) for a in config.aliases),
        buffer_donors=tuple((numbers[old], index) for old, index in config.buffer_donors),
        entry_layout=layout,
        propagate_sharding_to_parameters=shardings,
    )
