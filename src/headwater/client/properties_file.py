"""A properties file of Java as the settings of a client."""

from pathlib import Path

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.java_properties import parse_properties


def read_properties(path: Path | str) -> dict[str, str]:
    """What a `.properties` file says. `InvalidSetting` for one that cannot be read."""
    try:
        return parse_properties(Path(path).read_bytes())
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error
