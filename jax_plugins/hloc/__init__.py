"""JAX finds hloc here, and by the entry point of the group `jax_plugins`."""


def initialize() -> None:
    """Register the backend."""
    from hloc.pjrt.register import register

    register()
