"""Modules in files that are not HLO text: protocol buffers, gzip, StableHLO.

`read.read_snapshot` looks at the content, never at the name of a file; `write.module_bytes` writes.
"""
