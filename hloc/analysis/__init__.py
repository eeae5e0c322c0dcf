"""Facts about a module, computed by plain functions; nothing here changes the IR."""
