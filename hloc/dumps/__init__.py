"""Folders that XLA writes with `--xla_dump_to`: their files and contents."""
