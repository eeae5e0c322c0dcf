"""Kernels for GPUs as code of this machine: every thread is a coroutine."""
