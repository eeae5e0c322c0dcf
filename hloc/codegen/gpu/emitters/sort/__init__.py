"""Sorts and topk on GPUs."""
