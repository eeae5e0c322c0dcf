"""The part of llvmlite that hloc uses; llvmlite itself carries no types."""

__version__: str
