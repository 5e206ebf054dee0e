"""Files with a connector's config, as Kafka's `connect-standalone` accepts them.

A file has properties, a JSON object of properties, or a JSON object with `name` and `config`.
"""

import json
from pathlib import Path
from typing import Final

from headwater.client.properties_file import read_properties
from headwater.common.exceptions import InvalidSetting
from headwater.connect.runtime.connector_config import NAME

_CONFIG: Final = "config"
_JSON: Final = ".json"


def read_connector_file(path: Path) -> dict[str, str]:
    """Read a connector's config. Raises `InvalidSetting`."""
    config = _json_config(path) if path.suffix == _JSON else read_properties(path)
    if not config.get(NAME):
        raise InvalidSetting(f"{path}: the connector has no name")
    return config


def _json_config(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidSetting(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidSetting(f"{path} must be a JSON object")
    config = content.get(_CONFIG, content)
    if not isinstance(config, dict):
        raise InvalidSetting(f"{path}: {_CONFIG} must be a JSON object")
    found = {str(name): _text(value) for name, value in config.items() if value is not None}
    if config is not content and NAME in content:
        found.setdefault(NAME, _text(content[NAME]))
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
