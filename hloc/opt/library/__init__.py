"""Passes that no pipeline runs; run them with `--passes=NAME`.

They produce forms that hloc's kernels do not need, or measured no speed-up.
"""
