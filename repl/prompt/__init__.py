"""The prompt at a terminal: keys and history, the line at the bottom, completion of names."""
