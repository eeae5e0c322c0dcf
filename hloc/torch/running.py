"""Compiled graphs as callables on tensors."""

from __future__ import annotations

from typing import Any

from hloc import driver
from hloc.ir.module import Module
from hloc.torch.graph import lowered, outputs_of
from hloc.torch.tensors import dtype_of, to_array, to_tensor


class CompiledGraph:
    """A compiled graph: takes the tensors of its placeholders and returns the list of its results.

    Attributes:
        module: the module before the passes.
    """

    def __init__(self, graph: Any, opt_level: int = 2) -> None:
        self.module: Module = lowered(graph)
        self._takes = [n.meta.get("val") is not None and hasattr(n.meta["val"], "shape")
                       for n in graph.nodes if n.op == "placeholder"]  # fmt: skip
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
