"""GPU kernel emitters, one file per kind of kernel; `table` selects one."""
