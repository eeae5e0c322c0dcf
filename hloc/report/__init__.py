"""Shared by the command line, the REPL and the lessons: text, inputs, results, comparisons."""
