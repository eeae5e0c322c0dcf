"""PyTorch on hloc: `hloc.torch.compile(module, examples)` and `torch.compile(backend="hloc")`.

A graph of PyTorch's core operators (ATen) becomes a module of HLO, one function per operator
(`operators/`), and runs on the tensors' own memory. Training uses PyTorch's AOTAutograd,
which provides a forward and a backward graph. See docs/torch.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloc.torch.exported import CompiledModule

__all__ = ["backend", "compile"]


def compile(
    module: Any, examples: Sequence[Any], opt_level: int = 2, *, constant_weights: bool = False
) -> CompiledModule:
    """Compile a `torch.nn.Module` for inputs like `examples`, for inference.

    Args:
        module: the module.
        examples: tensors of the shapes and types that calls will have.
        opt_level: 0 to 3.
        constant_weights: compile the weights into the program, which packs their matrices once and
            folds what depends on them alone. Otherwise they are read at every call, so later
            changes take effect.

    Returns:
        A callable with the module's arguments; `.hlo()` is its HLO text.

    Raises:
        UnsupportedError: the module uses an operator that hloc lacks.
    """
    from hloc.torch.exported import CompiledModule

    return CompiledModule(module, tuple(examples), opt_level, constant_weights=constant_weights)


def backend(
    graph: Any, examples: Sequence[Any], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile(model, backend="hloc")`, gradients included.

    Args:
        graph: the `torch.fx.GraphModule` that TorchDynamo captured.
        examples: its inputs, fake tensors.
        options: `{"opt_level": 3}`.
    """
    from hloc.torch.training import compile_for_dynamo

    return compile_for_dynamo(graph, examples, dict(options or {}))
