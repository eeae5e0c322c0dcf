"""`--inputs`, `--input` and `--random`: the arrays that a module is run on."""

from __future__ import annotations

from argparse import Namespace

from hloc.ir.module import Module
from hloc.report.input_specs import find_parameter
from hloc.report.run_inputs import Inputs


def inputs_of(arguments: Namespace, module: Module) -> Inputs:
    """Return the source of the inputs of `module`.

    Raises:
        HloError: `--input` names no parameter.
    """
    specs = {find_parameter(module, name).number: spec for name, spec in arguments.input}
    return Inputs(arguments.inputs or "", arguments.random or 0, specs)
