"""Gemms that read operands in place: few rows or columns, or small ones."""
