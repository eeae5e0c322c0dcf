"""Compiled graphs as callables on tensors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from hloc import driver
from hloc.ir.module import Module
from hloc.torch.graph import lowered, outputs_of
from hloc.torch.tensors import dtype_of, to_array, to_tensor


class CompiledGraph:
    """A compiled graph: takes the tensors of its placeholders and returns the list of its results.

    Args:
        graph: the `torch.fx.Graph`.
        opt_level: 0 to 3.
        constants: placeholder, by number -> its value, which never changes.

    Attributes:
        module: the module before the passes.
    """

    def __init__(
        self, graph: Any, opt_level: int = 2, constants: Mapping[int, Any] | None = None
    ) -> None:
        """Lower and compile the graph; note which arguments are arrays and what its results are."""
        self.module: Module = lowered(graph)
        self._takes = [n.meta.get("val") is not None and hasattr(n.meta["val"], "shape")
                       for n in graph.nodes if n.op == "placeholder"]  # fmt: skip
        if constants:
            numbers = list(accumulate(self._takes, initial=0))
            arrays = {numbers[n]: to_array(value) for n, value in constants.items()}
            self.module = self.module.bind(arrays)
            self._takes = [takes and n not in constants for n, takes in enumerate(self._takes)]
        (output,) = (node for node in graph.nodes if node.op == "output")
        self._gives = [
            None if leaf is None else dtype_of(leaf.meta["val"].dtype)
            for leaf in outputs_of(output)
        ]
        options = driver.make_options(opt_level, "cpu", {})
        self.executable = driver.compile_module(self.module, options)

    def __call__(self, *tensors: Any) -> list[Any]:
        arrays = [to_array(t) for t, takes in zip(tensors, self._takes, strict=True) if takes]
        results = iter(self.executable(*arrays))
        return [None if kind is None else to_tensor(next(results), kind) for kind in self._gives]

    def hlo(self) -> str:
        """Return the text of the module before the passes."""
        return self.module.to_text()
