"""The diff of two modules as lines, as cells of a table, as data and as a page."""
