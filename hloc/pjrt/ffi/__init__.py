"""Handlers of the XLA FFI: C functions that programs of JAX call (`jax.ffi`).

`abi.py` has the structures, `attributes.py` the attributes of a call, `frames.py` the call frame,
`api.py` the functions that handlers call, `registered.py` the handlers that are registered with
JAX, and `targets.py` registers them with hloc.
"""
