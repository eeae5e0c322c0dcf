"""`hloc web --classroom`: the page for many students, whose work is done in confined processes.

A student joins with the class link (`door`) and gets a session (`sessions`): a page and confined
processes of his own (`students`), which a fork server makes (`work`; `hloc/confinement/`).
"""
