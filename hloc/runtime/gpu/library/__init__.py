"""Calls of NVIDIA's libraries through their Python packages, which are optional."""
