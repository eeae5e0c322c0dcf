"""Confined processes: a sandbox without the files, processes and network of the machine.

A *fork server* (`fork_server`; its client is `forked`) is a process that has imported everything
and holds no secret. It forks a process for each piece of work, which confines itself (`process`)
before it reads untrusted input: a new user and new namespaces (`namespaces`), a file tree with only
Python and hloc in it (`file_tree`), Landlock (`landlock`), resource limits, and a filter of system
calls (`seccomp`, `call_table`). All of them are system calls made with ctypes (`kernel`). If one is
missing, nothing runs, and `support` names it.
"""
