"""`torch.compile(backend="hloc")`: graphs of TorchDynamo, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloc.torch.running import CompiledGraph


def compile_for_dynamo(
    graph: Any, examples: Sequence[Any], options: dict[str, Any]
) -> Callable[..., Any]:
    """Return a callable for a graph that TorchDynamo captured; see `hloc.torch.backend`."""
    from functorch.compile import make_boxed_func
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    opt_level = int(options.pop("opt_level", 2))
    if options:
        raise TypeError(f"hloc has no option {', '.join(sorted(options))}; it has opt_level")

    def compiled(captured: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        boxed: Callable[..., Any] = make_boxed_func(_Specialized(captured, opt_level))
        return boxed

    found: Callable[..., Any] = aot_autograd(
        fw_compiler=compiled, bw_compiler=compiled, decompositions=core_aten_decompositions()
    )(graph, examples)
    return found


class _Specialized:
    """A captured graph, compiled once for each set of shapes that it is called with.

    TorchDynamo turns varying sizes into inputs; HLO needs static sizes.
    """

    def __init__(self, captured: Any, opt_level: int) -> None:
        self._captured = captured
        self._opt_level = opt_level
        self._compiled: dict[tuple[Any, ...], CompiledGraph] = {}

    def __call__(self, *inputs: Any) -> list[Any]:
        key = tuple(_key(value) for value in inputs)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = CompiledGraph(self._graph(inputs), self._opt_level)
        return found(*inputs)

    def _graph(self, inputs: Sequence[Any]) -> Any:
        """Return the graph with the sizes of `inputs`."""
        from torch.fx.experimental.proxy_tensor import make_fx

        values = (node.meta.get("val") for node in self._captured.graph.nodes)
        if all(_is_fixed(value) for value in values):
            return self._captured.graph
        return make_fx(self._captured, tracing_mode="fake")(*inputs).graph


def _key(value: Any) -> Any:
    return (tuple(value.shape), value.dtype) if hasattr(value, "shape") else value


def _is_fixed(value: Any) -> bool:
    """True if no size in a value's description is symbolic."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    sizes = [n for v in values for n in (v.shape if hasattr(v, "shape") else (v,))]
    return all(n is None or isinstance(n, (int, float, bool)) for n in sizes)
