"""Attention as one kernel: dot, mask, softmax, dot."""
