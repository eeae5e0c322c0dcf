"""Sorts and top-k: by keys in vectors and by radix, or by merges with any comparator."""
