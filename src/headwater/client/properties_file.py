"""Read client settings from a Java properties file."""

from pathlib import Path

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.java_properties import parse_properties


def read_properties(path: Path | str) -> dict[str, str]:
    """Read a `.properties` file; `InvalidSetting` if it cannot be read."""
    try:
        return parse_properties(Path(path).read_bytes())
    except OSError as error:
        raise InvalidSetting(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidSetting(f"cannot read {path}: {error}") from error
