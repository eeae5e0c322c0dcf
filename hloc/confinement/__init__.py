"""Confined processes: they reach no file, process or network of the machine, and take little.

A *fork server* (`fork_server`, asked through `forked`) is a process that has imported everything
and holds no secret. It forks a process for each piece of work, which shuts itself in (`process`)
before it sees a byte of a stranger's: a new user and new namespaces (`namespaces`), a file tree
with only Python and hloc in it (`file_tree`), Landlock (`landlock`), limits, and a filter of system
calls (`seccomp`, `call_table`). Each of these is asked of Linux through `kernel`, by ctypes; where
one is missing nothing is confined, and `support` says what it is.
"""
