"""`python -m hloc` is the command `hloc`."""

from __future__ import annotations

import sys

from hloc.cli import main

if __name__ == "__main__":
    sys.exit(main())
