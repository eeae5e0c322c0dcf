"""GPU kernels as code of the host processor: every thread is a coroutine."""
