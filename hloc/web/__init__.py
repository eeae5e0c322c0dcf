"""`hloc web`: a local page to edit a module, step through its passes, run it and see its code.

The server (`app`, `guard`, `server`) reads no module: child processes with limits (`child`,
`worker`) do, which work on sessions of `repl/`.
"""
