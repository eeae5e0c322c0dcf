"""Writing a text or bytes to a file."""

from __future__ import annotations

from hloc.errors import HloError, reason_of


def write_form(path: str, form: str | bytes) -> None:
    """Write a text, which then ends with a line end, or bytes to the file `path`.

    Raises:
        HloError: the file cannot be written.
    """
    try:
        with open(path, "wb") as file:
            if isinstance(form, str):
                form = (form if form.endswith("\n") else form + "\n").encode(
                    "utf-8", "surrogateescape"
                )
            file.write(form)
    except OSError as fault:
        raise HloError(f"cannot write {path}: {reason_of(fault)}") from None
