"""The language server for HLO text (docs/editors.md).

Each feature is a file of plain functions on a `Document`; only `server.py` uses the protocol.
Positions are offsets in the text, ranges are half-open as everywhere in hloc.
"""
