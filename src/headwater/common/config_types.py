"""The words of the config APIs: what a config belongs to, where its value comes from, its type.

`ConfigSource` is ordered by precedence for a reader of the numbers only by chance: a topic's or a
group's own value wins over everything, then the lower number wins.
"""

from enum import IntEnum


class ResourceType(IntEnum):
    """What a config belongs to. The broker resource without a name is all brokers' default.

    The last three have APIs of their own, and numbers that no request for configs can name.
    """

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    USER = 1_001
    CLIENT = 1_002
    IP = 1_003

    @property
    def is_named_by_requests(self) -> bool:
        return self < ResourceType.USER


class ConfigSource(IntEnum):
    """Where an effective value was found."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """The type that a client may show or check a value by."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with one value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
