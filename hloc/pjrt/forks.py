"""Forked processes may only read arrays that are ready: the threads of JAX and hloc are gone.

jaxlib itself hangs when it compiles a program or destroys a client there.
"""

from __future__ import annotations

import sys
from typing import Any

from hloc.pjrt.native import keep_object, state

MESSAGE = (
    "hloc cannot run programs in a process forked after JAX was started: its threads are gone. "
    "Use the start method 'spawn' of multiprocessing."
)


def after_fork() -> None:
    """Let the child raise an error for programs, and not destroy clients at exit."""
    state().forked = 1
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    compiler: Any = sys.modules.get("jax._src.compiler")
    if bridge is None or compiler is None:
        return
    for client in bridge._backends.values():
        keep_object(client)
    compile_ = compiler.backend_compile_and_load

    def backend_compile_and_load(backend: Any, *args: Any, **named: Any) -> Any:
        if "hloc" in backend.platform_version:
            import jax

            raise jax.errors.JaxRuntimeError(f"FAILED_PRECONDITION: {MESSAGE}")
        return compile_(backend, *args, **named)

    compiler.backend_compile_and_load = backend_compile_and_load
