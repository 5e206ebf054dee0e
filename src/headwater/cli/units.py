"""Numbers that tables show for people and JSON shows exactly."""

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class ByteCount(int):
    """A number of bytes; as text it has a unit: 512 B, 1.4 GiB."""

    def __str__(self) -> str:
        value, unit = float(self), 0
        while value >= 1023.5 and unit < len(_UNITS) - 1:
            value /= 1024
            unit += 1
        digits = 0 if unit == 0 or value >= 99.95 else 1
        return f"{value:.{digits}f} {_UNITS[unit]}"
