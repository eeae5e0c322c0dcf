"""The language server: what editors show of HLO text (docs/editors.md).

Each feature is a file of plain functions on a `Document`; `server.py` alone speaks the protocol.
Places are offsets in the text, half-open as everywhere in hloc.
"""
