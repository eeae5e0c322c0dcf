"""hlo-repl: an interactive program to look into modules and passes, step by step."""
