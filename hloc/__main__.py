"""`python -m hloc` is the command `hloc`."""

from __future__ import annotations

from hloc.cli import process

if __name__ == "__main__":
    process()
