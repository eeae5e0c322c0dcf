"""Sources of the local engine's machine code: Python in form, translated, never run."""
