"""hlo-repl: an interactive program to inspect modules and passes, step by step."""
