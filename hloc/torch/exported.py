"""`hloc.torch.compile`: a module of PyTorch, exported and compiled for inference."""

from __future__ import annotations

from typing import Any

from hloc.ir.module import Module
from hloc.torch.running import CompiledGraph

_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION")


class CompiledModule:
    """A compiled `torch.nn.Module`; call it like the module. Gradients are not recorded.

    Attributes:
        graph: the compiled graph; its parameters are the weights that are not constants, then the
            inputs.
    """

    def __init__(
        self, module: Any, examples: tuple[Any, ...], opt_level: int, *, constant_weights: bool
    ) -> None:
        import torch

        with torch.no_grad():
            program = torch.export.export(module, examples)
            self._program = program.run_decompositions()
        self._source = module
        self._weights = [_weight_of(spec, self._program) for spec in self._specs("input_specs")]
        constants = self._constants() if constant_weights else {}
        self.graph = CompiledGraph(self._program.graph, opt_level, constants)

    def _specs(self, name: str) -> list[Any]:
        return list(getattr(self._program.graph_signature, name))

    def _constants(self) -> dict[int, Any]:
        """Return the weights that no call changes, by number of the placeholder."""
        changed = {s.target for s in self._specs("output_specs") if s.kind.name in _MUTATIONS}
        return {
            number: weight
            for number, (weight, spec) in enumerate(
                zip(self._weights, self._specs("input_specs"), strict=True)
            )
            if hasattr(weight, "shape") and spec.target not in changed
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on tensors of the shapes and types of the examples."""
        import torch.utils._pytree as pytree

        given, structure = pytree.tree_flatten((args, kwargs))
        expected = self._program.call_spec.in_spec
        if structure != expected:
            raise TypeError(f"called with {structure}, but compiled for {expected}")
        inputs = iter(given)
        tensors = [next(inputs) if weight is None else weight for weight in self._weights]
        results = self.graph(*tensors)
        outputs = []
        for spec, result in zip(self._specs("output_specs"), results, strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                self._program.state_dict[spec.target].copy_(result)
            else:
                outputs.append(result)
        return pytree.tree_unflatten(outputs, self._program.call_spec.out_spec)

    @property
    def module(self) -> Module:
        """The module of HLO before the passes."""
        return self.graph.module

    def hlo(self) -> str:
        """Return its text."""
        return self.graph.hlo()


def _weight_of(spec: Any, program: Any) -> Any:
    """Return the tensor of a parameter, buffer or constant; None for an input of the user."""
    if spec.kind.name == "USER_INPUT":
        return None
    found = program.state_dict.get(spec.target)
    return program.constants[spec.target] if found is None else found
