"""Pictures of modules: graphs and rooflines, as files that need no network and no other program."""
