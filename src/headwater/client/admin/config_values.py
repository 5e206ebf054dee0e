"""Convert config values to Kafka's strings: `True` is "true", 5 is "5"."""

from headwater.client.errors import InvalidArgument
from headwater.common.settings.setting_types import format_value

ConfigValue = str | int | float | bool


def config_text(name: str, value: object) -> str:
    """Format a config value as a string."""
    if not isinstance(value, str | int | float):
        raise InvalidArgument(f"{name} must be a string or a number, not {value!r}")
    return format_value(value) or ""
