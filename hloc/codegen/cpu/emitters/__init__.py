"""One emitter per shape of loop nest; `table` lists them in the order they are asked."""
