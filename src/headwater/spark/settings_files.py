"""A properties file of client settings, named by an option: the way for secrets into a query.

An option stands in a program or a pipeline, and is known to whoever listens to Spark. Of a file
they know the name. What a reader would get wrong: the file is read where a query is planned, which
is the driver's machine; to tasks the settings go with the query, as bytes.
"""

from pathlib import Path
from typing import Final

from headwater.common.settings.java_properties import parse_properties
from headwater.spark.exceptions import InvalidOption

SETTINGS_FILE: Final = "settingsFile"
_BYTES_MAX: Final = 1 << 20


def beside(options: dict[str, str], folder: Path) -> dict[str, str]:
    """Options of a topic, whose file of settings is found from a folder on."""
    return {
        name: str((folder / Path(text).expanduser()).resolve())
        if name.lower() == SETTINGS_FILE.lower()
        else text
        for name, text in options.items()
    }


def settings_in(path: str | Path) -> dict[str, str]:
    """`InvalidOption`, with the reason in one line, where it cannot be read."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise InvalidOption(f"{path} has more than {_BYTES_MAX} bytes: are those settings?")
        return parse_properties(content)
    except OSError as error:
        raise InvalidOption(f"the settings {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidOption(f"the settings {path} cannot be read: {error}") from None
