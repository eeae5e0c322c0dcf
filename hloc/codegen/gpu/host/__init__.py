"""GPU kernels compiled for the host processor: every thread is a coroutine."""
