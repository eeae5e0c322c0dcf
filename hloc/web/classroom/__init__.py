"""`hloc web --classroom`: the page for many students, whose work runs in confined processes.

A student joins with the class link (`door`) and gets a session (`sessions`): a page and confined
processes (`students`), which a fork server forks (`work`, `hloc/confinement/`).
"""
