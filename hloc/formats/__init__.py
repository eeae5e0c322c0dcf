"""File formats other than HLO text: protocol buffers, gzip, StableHLO.

`read.read_snapshot` detects the format by the content, never by the file name; `write.module_bytes`
writes.
"""
