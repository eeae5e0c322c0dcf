"""Convolutions: as gemms of gathered windows, and direct ones for few channels per group."""
