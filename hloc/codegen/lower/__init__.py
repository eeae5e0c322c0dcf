"""The last changes to a module before it is planned: every opcode that is left has a kernel."""
