"""GPU kernel emitters, one file per loop form; `table` selects one."""
