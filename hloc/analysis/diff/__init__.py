"""What differs between two modules, or two states of one, and which rewrites made the difference.

Two states of one module are compared by the identity of instructions, modules without a common
history after instructions have been matched.
"""
