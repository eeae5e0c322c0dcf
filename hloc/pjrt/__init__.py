"""The PJRT plug-in: hloc as a backend of JAX, through the PJRT C API, without C.

`register.py` is the entry point; docs/jax.md explains the parts.
"""
