"""Syntax highlighting of HLO text for editors and other tools."""
