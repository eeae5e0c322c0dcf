"""Subprocess of `jaxlib_converter`: converts a module from stdin to stdout."""

from __future__ import annotations

import sys


def main() -> int:
    """Convert stdin; the argument is `to-hlo` or `from-hlo`."""
    from jaxlib import _jax

    data = sys.stdin.buffer.read()
    if sys.argv[1] == "to-hlo":
        computation = _jax.mlir.mlir_module_to_xla_computation(
            data, use_tuple_args=False, return_tuple=False
        )
        text = computation.as_hlo_text(print_large_constants=True)
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    else:
        from jaxlib import _hlo

        module = _hlo.hlo_module_from_text(data.decode("utf-8", "surrogateescape"))
        computation = _hlo.XlaComputation(module.as_serialized_hlo_module_proto())
        found = _jax.mlir.xla_computation_to_mlir_module(computation)
        sys.stdout.buffer.write(found if isinstance(found, bytes) else found.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
