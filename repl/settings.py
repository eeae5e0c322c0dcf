"""The keys of `set KEY=VALUE`, one row each, with values and meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.near_names import near_name_notes

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key.

    Attributes:
        choices: the allowed values, () if `read` decides.
        read: converts the text; raises ValueError for an invalid value.
    """

    key: str
    default: str
    summary: str
    choices: tuple[str, ...] = ()
    read: Callable[[str], object] = str


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise ValueError(text)
    return number


def _bound(text: str) -> float | None:
    if text == "default":
        return None
    number = float(text)
    if not 0 <= number < 1e9:
        raise ValueError(text)
    return number


def _natural(text: str) -> int:
    number = int(text)
    if not 0 <= number < 1 << 31:
        raise ValueError(text)
    return number


ON_OFF = ("on", "off")

SETTINGS: dict[str, Setting] = {
    row.key: row
    for row in (
        Setting(
            "auto-verify",
            "plugins",
            "compare results after each pass: of plug-ins, of all, or never",
            ("plugins", "on", "off"),
        ),
        Setting("fast-math", "off", "allow rules that are not exact", ON_OFF),
        Setting(
            "fill-constants",
            "error",
            "treatment of elided constants, constant({...})",
            ("error", "zeros"),
        ),
        Setting(
            "target",
            "cpu",
            "target of `run`, `emit` and similar commands; for GPUs see `simulate`",
            ("cpu", "nvptx64", "amdgcn"),
        ),
        Setting(
            "simulate",
            "ptx",
            "how GPU code runs: PTX interpreter, native code, or a GPU (off)",
            ("ptx", "host", "off"),
        ),
        Setting("gpu-chip", "sm_80", "chip of nvptx64, `ptx` and `sim`; `hloc targets nvptx64`"),
        Setting("seed", "0", "seed of random inputs", read=_natural),
        Setting("timeout", "60", "time limit of compiled code, in seconds", read=_positive),
        Setting("verify-seconds", "20", "time limit of verify, in seconds", read=_positive),
        Setting("rtol", "default", "allowed relative error in comparisons", read=_bound),
        Setting("atol", "default", "allowed absolute error in comparisons", read=_bound),
    )
}
"""The settings; other modules add rows with `add_setting`."""


def add_setting(row: Setting) -> None:
    """Register another key."""
    SETTINGS[row.key] = row


@dataclass(slots=True)
class Settings:
    """The values of one session; keys that were not set have their defaults."""

    values: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> str:
        """Set `key`; return its stored value.

        Raises:
            HloError: there is no such key, or the value is invalid.
        """
        row = _row(key)
        if row.choices == ON_OFF:
            value = "on" if value in _ON else "off" if value in _OFF else value
        if row.choices and value not in row.choices:
            raise HloError(
                f"{row.key} is {' or '.join(row.choices)}, not {value!r}",
                notes=near_name_notes(value, list(row.choices)),
            )
        try:
            row.read(value)
        except ValueError:
            raise HloError(f"{row.key} cannot be {value!r}; its default is {row.default}") from None
        self.values[row.key] = value
        return value

    def text(self, key: str) -> str:
        """Return the value of `key` as text."""
        return self.values.get(key, _row(key).default)

    def is_on(self, key: str) -> bool:
        """Return whether a switch is on."""
        return self.text(key) == "on"

    def number(self, key: str) -> float:
        """Return the value of `key`, which is a number."""
        return float(self.text(key))

    def bound(self, key: str) -> float | None:
        """Return an error bound, None for that of the tolerance table."""
        return _bound(self.text(key))


def _row(key: str) -> Setting:
    name = key.replace("_", "-")
    if name not in SETTINGS:
        raise HloError(f"there is no setting {key!r}", notes=near_name_notes(name, SETTINGS))
    return SETTINGS[name]
