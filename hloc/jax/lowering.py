"""Lowering of a JAX function to the HloModuleProto that JAX would pass to XLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hloc.errors import HloError
from hloc.formats.from_proto import module_from_bytes
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.jax.installed import jax_package
from hloc.lazy_dataclass import dataclass

CALLBACK = "xla_ffi_python_cpu_callback"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A JAX function for arguments of certain shapes.

    Attributes:
        name: name of the function.
        proto: the serialized HloModuleProto.
        in_tree, out_tree: pytree structures of arguments and results.
        kept: numbers of the argument leaves that are parameters of the module.
        results: the results, as JAX describes them (`ShapeDtypeStruct`).
    """

    name: str
    proto: bytes
    in_tree: Any
    out_tree: Any
    kept: tuple[int, ...]
    results: tuple[Any, ...]

    def module(self) -> Module:
        """Return the module, verified, with its change log recording."""
        found = module_from_bytes(self.proto, self.name)
        verify(found)
        found.log.recording = True
        return found


def lower(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Lowered:
    """Trace and lower `function`, a JAX function or the result of `jax.jit`.

    Raises:
        HloError: it calls back into Python, or needs several devices. JAX's errors are not caught.
    """
    jax = jax_package("hloc.from_jax")
    jitted = function if hasattr(function, "trace") else jax.jit(function, keep_unused=True)
    traced = jitted.trace(*arguments, **keywords)
    lowered = traced.lower(lowering_platforms=("cpu",))
    name = getattr(function, "__name__", None) or type(function).__name__
    leaves = jax.tree.leaves(lowered.args_info)
    results = tuple(jax.tree.leaves(traced.out_info))
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    if CALLBACK.encode() in proto:
        raise HloError(
            f"{name} calls back into Python (jax.debug.print, pure_callback, io_callback), "
            "which works on hloc as a backend only",
            notes=("import hloc.jax; hloc.jax.enable(), or JAX_PLATFORMS=hloc,cpu",),
        )
    return Lowered(
        name, proto, lowered.in_tree, lowered.out_tree, _kept(lowered, len(leaves), name), results
    )


def _kept(lowered: Any, leaves: int, name: str) -> tuple[int, ...]:
    """Return which arguments are parameters: `jax.jit` drops those that nothing uses."""
    inner = getattr(lowered, "_lowering", None)  # JAX has no public name for this
    options = getattr(inner, "compile_args", {})
    kept = tuple(sorted(options.get("kept_var_idx", range(leaves))))
    if getattr(inner, "const_args", None):
        raise HloError(
            f"JAX passes constants of {name} as arguments, which hloc does not take here",
            notes=("set jax_use_simplified_jaxpr_constants to False",),
        )
    if options.get("num_devices", 1) != 1:
        raise HloError(f"{name} is for {options['num_devices']} devices; hloc runs one here")
    return kept
