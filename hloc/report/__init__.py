"""What the command line, the REPL and the lessons share: words, inputs, answers, comparisons."""
