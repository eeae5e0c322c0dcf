"""Engines that run a model of `benchmarks/models/`, each made ready in a process of its own.

An engine is made by a function of the model; it has `first`, which compiles, runs once and returns
the results, and `run`, which runs again and returns when the results are there. All else is done
before: imports, tracing or exporting, weights and inputs in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.models.model import Model

Results = list[Any]


@dataclass(frozen=True)
class Engine:
    """A model ready to be compiled.

    Attributes:
        first: compiles, runs once, and returns the results.
        run: runs once more.
        weight_bytes: of weights that `first` loads; those already in memory do not count.
    """

    first: Callable[[], Results]
    run: Callable[[], object]
    weight_bytes: int = 0


def jax_engine(model: Model, threads: int) -> Engine:
    """Return the engine of JAX, for hloc or XLA:CPU as the environment says.

    The argument that the function takes over is donated, and its new value is the argument of the
    next run. Weights are arguments too.
    """
    import jax
    import numpy as np

    taken: tuple[int, ...] = () if model.carried is None else (model.carried,)
    step = lambda x, row: (jax.numpy.sin(row @ x), x)  # noqa: E731
    small = jax.jit(lambda x: jax.lax.scan(step, x[0, 0], x))
    small.lower(np.ones((3, 4, 4), np.float32)).compile()  # imports, tables
    arguments = jax.block_until_ready(
        [jax.tree.map(lambda a: jax.device_put(a), a) for a in model.arguments()]
    )
    lowered = jax.jit(model.function, donate_argnums=taken, keep_unused=True).lower(*arguments)
    compiled: list[Any] = []

    def run() -> Any:
        results = jax.block_until_ready(compiled[0](*arguments))
        if model.carried is not None:
            arguments[model.carried] = results[-1]
        return results

    def first() -> Results:
        compiled.append(lowered.compile())
        return [np.asarray(leaf) for leaf in jax.tree.leaves(run())]

    return Engine(first, run)


def constant_engine(model: Model, threads: int) -> Engine:
    """Return the engine of hloc with the weights, the first argument, bound as constants.

    The argument that the function takes over is donated, as in `jax_engine`.
    """
    import jax
    import numpy as np

    import hloc

    weights, *inputs = model.arguments()
    donated_arguments = () if model.carried is None else (model.carried,)
    traced = jax.jit(model.function, keep_unused=True, donate_argnums=donated_arguments)
    program = hloc.from_jax(traced, weights, *inputs)
    leaves = jax.tree.leaves(weights)
    bound: dict[int, Any] = {i: np.asarray(leaf) for i, leaf in enumerate(leaves)}
    arguments = [np.asarray(leaf) for leaf in jax.tree.leaves(inputs)]
    taken = slice(0)
    if model.carried is not None:
        first_taken = len(jax.tree.leaves(inputs[: model.carried - 1]))
        size = len(jax.tree.leaves(inputs[model.carried - 1]))
        taken = slice(first_taken, first_taken + size)
    compiled: list[Any] = []

    def run() -> Results:
        donated = range(len(arguments))[taken]
        results: Results = compiled[0](*arguments, donate=donated)
        arguments[taken] = results[len(results) - len(donated) :]
        return results

    def first() -> Results:
        compiled.append(hloc.compile(program.module.bind(bound), threads=threads))
        return [leaf.copy() for leaf in run()]

    return Engine(first, run)


def torch_engine(model: Model, threads: int, compiled: bool = False) -> Engine:
    """Return the engine of PyTorch: its operators one by one, or `torch.compile`."""
    import torch

    from benchmarks.models.twins import leaves, load
    from benchmarks.models.twins.training import training_step

    torch.set_num_threads(threads)
    module, inputs = load(model)
    function = torch.compile(module) if compiled else module
    if compiled:
        torch.compile(lambda x: torch.relu(x) + 1)(torch.ones(8))  # imports, tables
    step = training_step(module, function, inputs)

    def apply() -> Any:
        with torch.inference_mode():
            return function(*inputs)

    run = step if model.trains else apply
    return Engine(lambda: [leaf.float().numpy() for leaf in leaves(run())], run)


def onnx_engine(model: Model, threads: int) -> Engine:
    """Return the engine of ONNX Runtime; PyTorch's exporter makes its file."""
    import tempfile
    from pathlib import Path

    import onnxruntime
    import torch

    from benchmarks.models.twins import load

    module, inputs = load(model)
    folder = tempfile.TemporaryDirectory()
    file = Path(folder.name) / "model.onnx"
    torch.onnx.export(module, tuple(inputs), file, dynamo=True, external_data=True, verbose=False)
    weights = sum(w.nbytes for w in module.state_dict().values())
    feeds = [value.numpy() for value in inputs]
    del module
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions: list[Any] = []

    def run() -> Results:
        names = [argument.name for argument in sessions[0].get_inputs()]
        results: Results = sessions[0].run(None, dict(zip(names, feeds, strict=True)))
        return results

    def first() -> Results:
        providers = ["CPUExecutionProvider"]
        sessions.append(onnxruntime.InferenceSession(str(file), options, providers=providers))
        folder.cleanup()
        return run()

    return Engine(first, run, weights)


ENGINES: dict[str, Callable[[Model, int], Engine]] = {
    "hloc": jax_engine,
    "constant": constant_engine,
    "xla": jax_engine,
    "torch": torch_engine,
    "compile": lambda model, threads: torch_engine(model, threads, compiled=True),
    "onnx": onnx_engine,
}
"""By name; those of PyTorch and ONNX Runtime need a twin of the model."""

PACKAGES = {
    "hloc": ("jax",),
    "constant": ("jax",),
    "xla": ("jax",),
    "torch": ("torch",),
    "compile": ("torch",),
    "onnx": ("onnx", "onnxruntime", "onnxscript", "torch"),
}
"""What each engine needs to be installed."""
