"""Settings that all connectors share, as in Kafka Connect: transforms and errors.

transforms=mask
transforms.mask.type=MaskField$Value
transforms.mask.fields=card
errors.tolerance=all
errors.deadletterqueue.topic.name=orders.dlq
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.common.topic_names import topic_name_error
from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.transform_config import (
    TransformSpec,
    is_transform_option,
    read_transforms,
)

_ERRORS: Final = "errors."
TOLERANCE: Final = "errors.tolerance"
LOG: Final = "errors.log.enable"
LOG_MESSAGES: Final = "errors.log.include.messages"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
REPLICATION_FACTOR: Final = "errors.deadletterqueue.topic.replication.factor"
CONTEXT_HEADERS: Final = "errors.deadletterqueue.context.headers.enable"
_NAMES: Final = (
    TOLERANCE,
    LOG,
    LOG_MESSAGES,
    DEAD_LETTER_TOPIC,
    REPLICATION_FACTOR,
    CONTEXT_HEADERS,
)
# A source's records are not in a topic yet, and cannot be read twice.
_OF_SINKS: Final = (LOG, LOG_MESSAGES, DEAD_LETTER_TOPIC, REPLICATION_FACTOR, CONTEXT_HEADERS)
_RETRIES: Final = ("errors.retry.timeout", "errors.retry.delay.max.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTolerance:
    """What happens to a record that cannot be decoded or transformed."""

    # `errors.tolerance=all`: it is skipped; otherwise it fails the connector.
    is_tolerant: bool = False
    logs: bool = False
    logs_messages: bool = False
    dead_letter_topic: str | None = None
    replication_factor: int = 3
    has_context_headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorProperties:
    """The properties of a connector, divided by what reads them."""

    options: Mapping[str, str] = field(default_factory=dict)
    transforms: tuple[TransformSpec, ...] = ()
    errors: ErrorTolerance = field(default_factory=ErrorTolerance)

    @property
    def is_plain(self) -> bool:
        """Whether records are neither transformed nor skipped."""
        return not self.transforms and not self.errors.is_tolerant


def read_connector_properties(given: Mapping[str, str], *, is_sink: bool) -> ConnectorProperties:
    """Divide the properties of a connector. Raises `InvalidOption`."""
    for_transforms = {name: text for name, text in given.items() if is_transform_option(name)}
    for_errors = {name: text for name, text in given.items() if name.startswith(_ERRORS)}
    return ConnectorProperties(
        options={
            name: text
            for name, text in given.items()
            if name not in for_transforms and name not in for_errors
        },
        transforms=tuple(read_transforms(for_transforms)),
        errors=_errors(for_errors, is_sink=is_sink),
    )


def _errors(given: Mapping[str, str], *, is_sink: bool) -> ErrorTolerance:
    for name in given:
        if name in _RETRIES:
            raise InvalidOption(f"{name} is not supported: Spark tries each task four times")
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidOption(f"a connector has no option {name}{hint}")
        if name in _OF_SINKS and not is_sink:
            raise InvalidOption(f"{name} is for exports: an import cannot read a record twice")
    tolerance = given.get(TOLERANCE, "none").lower()
    if tolerance not in ("none", "all"):
        raise InvalidOption(f"{TOLERANCE} must be none or all, not {given[TOLERANCE]}")
    topic = given.get(DEAD_LETTER_TOPIC) or None
    reason = None if topic is None else topic_name_error(topic)
    if reason is not None:
        raise InvalidOption(f"{DEAD_LETTER_TOPIC}: {reason}")
    if topic is not None and tolerance == "none":
        raise InvalidOption(f"{DEAD_LETTER_TOPIC} needs {TOLERANCE}=all: otherwise errors stop it")
    factor = given.get(REPLICATION_FACTOR, "3")
    if not (factor == "-1" or (factor.isdecimal() and 0 < int(factor) < 2**15)):
        raise InvalidOption(f"{REPLICATION_FACTOR} must be a positive number or -1, not {factor}")
    return ErrorTolerance(
        is_tolerant=tolerance == "all",
        logs=_flag(given, LOG),
        logs_messages=_flag(given, LOG_MESSAGES),
        dead_letter_topic=topic,
        replication_factor=int(factor),
        has_context_headers=_flag(given, CONTEXT_HEADERS),
    )


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidOption(f"{name} must be true or false, not {given[name]}")
    return text == "true"
