"""Types of the config APIs: resource, source, value type and operation.

Note: the numbers of `ConfigSource` are not its precedence. A topic's or group's own value wins over
everything; among the others the lower number wins.
"""

from enum import IntEnum


class ResourceType(IntEnum):
    """Resource of a config. BROKER without a name is the cluster-wide default.

    The last three have APIs of their own; no config request can name them.
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
    """Source of an effective value."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """Type of a value, for clients that display or check it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """Operation of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
