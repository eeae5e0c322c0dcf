"""One emitter per shape of loop nest; `table` lists them in order of preference."""
