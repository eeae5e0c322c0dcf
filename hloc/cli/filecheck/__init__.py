"""`hloc check`: RUN lines of a file, its CHECK lines as patterns, and how outputs match them."""
