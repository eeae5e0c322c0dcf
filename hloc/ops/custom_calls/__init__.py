"""What custom calls compute, by target, in the evaluator and through SciPy's BLAS and LAPACK."""
