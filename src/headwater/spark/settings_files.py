"""Client settings from a properties file, with the certificates that it names.

An option of a query is visible to listeners of Spark and in its plans. A file is the way to keep
secrets out of options: Spark sees its name only.

Note: the file is read where a query is planned, which is the driver's machine. Tasks get the
settings with the query, as bytes, and with them the content of PEM files, so that executors need
neither the settings file nor the certificates. PKCS12 stores stay files: they must be on executors.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.common.settings.java_properties import parse_properties
from headwater.spark.exceptions import InvalidOption

SETTINGS_FILE: Final = "settingsFile"
_BYTES_MAX: Final = 1 << 20

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_TRUSTED: Final = "ssl.truststore.certificates"
_TRUSTED_FILES: Final = ("ssl.ca.location", "ssl.truststore.location")
_KEY: Final = "ssl.keystore.key"
_CHAIN: Final = "ssl.keystore.certificate.chain"
_KEY_FILES: Final = ("ssl.key.location", "ssl.certificate.location", "ssl.keystore.location")


def beside(options: dict[str, str], folder: Path) -> dict[str, str]:
    """The options of a topic, with its settings file relative to a folder."""
    return {
        name: str((folder / Path(text).expanduser()).resolve())
        if name.lower() == SETTINGS_FILE.lower()
        else text
        for name, text in options.items()
    }


def settings_in(path: str | Path) -> dict[str, str]:
    """Read a properties file. `InvalidOption` has the reason in one line."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(_BYTES_MAX + 1)
        if len(content) > _BYTES_MAX:
            raise InvalidOption(
                f"{path} has more than {_BYTES_MAX} bytes; this is not a settings file"
            )
        return parse_properties(content)
    except OSError as error:
        raise InvalidOption(f"the settings {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidOption(f"the settings {path} cannot be read: {error}") from None


def with_certificates(settings: Mapping[str, str]) -> dict[str, str]:
    """Client settings with the content of PEM files instead of their names."""
    found = dict(settings)
    for name in _TRUSTED_FILES:
        if name in found and _TRUSTED not in found and (blocks := _pem_blocks(found[name])):
            del found[name]
            found[_TRUSTED] = "\n".join(text for _, text in blocks)
    named = [name for name in _KEY_FILES if name in found]
    if named and _KEY not in found:
        blocks = [block for name in named for block in _pem_blocks(found[name])]
        keys = [text for label, text in blocks if label.endswith("PRIVATE KEY")]
        chain = [text for label, text in blocks if label == "CERTIFICATE"]
        if keys and chain:
            for name in named:
                del found[name]
            found |= {_KEY: "\n".join(keys), _CHAIN: "\n".join(chain)}
    return found


def _pem_blocks(path: str) -> list[tuple[str, str]]:
    """Labels and texts of a PEM file; none if it is missing or of another kind."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(_BYTES_MAX)
    except OSError:
        # The client reports it, with the name of the setting.
        return []
    return [(block[1], block[0]) for block in _BLOCK.finditer(content.decode("utf-8", "replace"))]
