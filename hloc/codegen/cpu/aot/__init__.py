"""Ahead of time: one object and a header that link into a C or C++ program."""
