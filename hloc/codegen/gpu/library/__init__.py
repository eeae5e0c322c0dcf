"""NVIDIA library routines that replace kernels on request."""
