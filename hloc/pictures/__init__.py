"""Pictures of modules: graphs and rooflines, as self-contained files."""
