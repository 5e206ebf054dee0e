"""Values of configs as Kafka has them, which is as texts: `True` is "true", 5 is "5"."""

from headwater.client.errors import InvalidArgument
from headwater.common.settings.setting_types import format_value

ConfigValue = str | int | float | bool


def config_text(name: str, value: object) -> str:
    """The text of a value that Python has other types for."""
    if not isinstance(value, str | int | float):
        raise InvalidArgument(f"{name} must be a text or a number, and not {value!r}")
    return format_value(value) or ""
