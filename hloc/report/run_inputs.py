"""The sources of a run's inputs: random, a file, or a spec for a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from hloc.dtypes import Array
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.report.input_specs import array_of, find_parameter, parameters_of
from hloc.report.inputs import load_arrays, parameter_leaves, random_inputs
from hloc.shapes import ArrayShape


@dataclass(slots=True)
class Inputs:
    """The sources of inputs.

    Attributes:
        file: an .npz file for all of them, "" for random ones.
        seed: seed of random inputs.
        specs: the spec of `input x=SPEC` by number of the parameter leaf; it takes precedence.
    """

    file: str = ""
    seed: int = 0
    specs: dict[int, str] = field(default_factory=dict)

    def clear(self) -> None:
        """Drop what belongs to one module; the seed is kept."""
        self.file = ""
        self.specs.clear()

    def use_file(self, path: str, module: Module) -> None:
        """Use an .npz file for inputs, if it fits `module`."""
        load_inputs(path, module)
        self.file = path
        self.specs.clear()

    def use_spec(self, name: str, spec: str, module: Module) -> str:
        """Use a spec for one input, if it fits; return the name of the parameter."""
        parameter = find_parameter(module, name)
        array_of(spec, parameter, module, self.seed)
        self.specs[parameter.number] = spec
        return parameter.names[0]

    def arrays(self, module: Module, shapes: Sequence[ArrayShape] | None = None) -> list[Array]:
        """Return one array per parameter leaf of `module`.

        Args:
            module: the program that takes the arrays.
            shapes: used instead of the parameters' shapes, on several devices.
        """
        if self.file:
            arrays = load_inputs(self.file, module, shapes)
        else:
            arrays = random_inputs(module, self.seed, shapes)
        parameters = parameters_of(module) if self.specs else ()
        for number, spec in self.specs.items():
            parameter = parameters[number]
            if shapes is not None:
                parameter = replace(parameter, shape=shapes[number])
            arrays[number] = array_of(spec, parameter, module, self.seed)
        return arrays

    def describe(self, module: Module) -> str:
        """Return where the inputs come from: `random, seed 0, x=normal(0,1)`."""
        parts = [self.file or f"random, seed {self.seed}"]
        parameters = parameters_of(module) if self.specs else ()
        parts += [f"{parameters[n].names[0]}={spec}" for n, spec in sorted(self.specs.items())]
        return ", ".join(parts)


def load_inputs(
    path: str, module: Module, shapes: Sequence[ArrayShape] | None = None
) -> list[Array]:
    """Read the arrays that `module` takes from an .npz file: arg0, arr_0, or by parameter name.

    Raises:
        HloError: as for `load_arrays`.
    """
    shapes = parameter_leaves(module) if shapes is None else shapes
    names = [parameter.names[0] for parameter in parameters_of(module)]
    return load_arrays(path, "arg", shapes, names)
