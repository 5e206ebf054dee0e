"""A connector's config: properties of all connectors, and options of its class.

name=orders-in
connector.class=FilesSource
topic=orders
key=id
path=./drop
format=json
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.common.exceptions import HeadwaterError, InvalidSetting
from headwater.common.topic_names import topic_name_error
from headwater.connect.connector import Sink, Source
from headwater.connect.connector_properties import ErrorTolerance, read_connector_properties
from headwater.connect.runtime.connector_plugins import (
    TOPICS,
    TOPICS_REGEX,
    ConnectorPlugin,
    PluginType,
    find_plugin,
)
from headwater.connect.runtime.herder import FOREVER, RetryPolicy
from headwater.pipelines.spec.ddl import read_schema
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import AvroOptions, registry_access
from headwater.spark.transforms.transform_config import is_transform_option

NAME: Final = "name"
CONNECTOR_CLASS: Final = "connector.class"
TASKS_MAX: Final = "tasks.max"
TOPIC: Final = "topic"
KEY: Final = "key"
SCHEMA: Final = "schema"
POLL_INTERVAL: Final = "poll.interval.ms"
BATCH_MAX_RECORDS: Final = "batch.max.records"
RETRY_TIMEOUT: Final = "errors.retry.timeout"
RETRY_DELAY: Final = "errors.retry.delay.max.ms"
CREATION_PARTITIONS: Final = "topic.creation.default.partitions"
CREATION_REPLICATION: Final = "topic.creation.default.replication.factor"
PRODUCER_OVERRIDE: Final = "producer.override."
CONSUMER_OVERRIDE: Final = "consumer.override."

_COMMON: Final = (NAME, CONNECTOR_CLASS, TASKS_MAX, RETRY_TIMEOUT, RETRY_DELAY)
_OF_SOURCES: Final = (TOPIC, KEY, POLL_INTERVAL, CREATION_PARTITIONS, CREATION_REPLICATION)
_OF_SINKS: Final = (TOPICS, TOPICS_REGEX, KEY, SCHEMA, BATCH_MAX_RECORDS)
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
SCHEMAS_ENABLE: Final = "value.converter.schemas.enable"
_VALUE_CONVERTER: Final = "value.converter."
_AVRO: Final = "AvroConverter"
_AUTO_REGISTER: Final = "auto.register.schemas"
_USE_LATEST: Final = "use.latest.version"
# A worker's tasks set these themselves; exactly-once delivery relies on them.
_RESERVED: Final = frozenset(
    {
        "bootstrap.servers",
        "enable.idempotence",
        "transactional.id",
        "acks",
        "group.id",
        "isolation.level",
        "enable.auto.commit",
        "auto.offset.reset",
    }
)


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """What is wrong with a property."""

    name: str
    message: str


class InvalidConnectorConfig(HeadwaterError):
    """A connector's config cannot be run; has all problems that were found."""

    def __init__(self, problems: list[ConfigProblem]) -> None:
        super().__init__("; ".join(f"{each.name}: {each.message}" for each in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """How a source's topic is created if it does not exist."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """A connector's config, divided by what reads it."""

    name: str
    plugin: ConnectorPlugin
    options: Mapping[str, str]
    """Options of the connector's class."""
    # Of a source that writes rows; empty for one that names topics itself.
    topic: str = ""
    topics: tuple[str, ...] = ()
    topics_regex: str | None = None
    key: str | None = None
    schema: str | None = None
    poll_interval_ms: int = 5_000
    batch_max_records: int = 10_000
    # How values are Avro; None for JSON.
    avro: AvroOptions | None = None
    errors: ErrorTolerance
    retry: RetryPolicy
    topic_creation: TopicCreation | None = None
    producer_overrides: Mapping[str, str]
    consumer_overrides: Mapping[str, str]

    def open_source(self) -> Source:
        found = self.plugin.open(self.options)
        assert isinstance(found, Source), "the plugin is a source"
        return found

    def open_sink(self) -> Sink:
        found = self.plugin.open(self.options)
        assert isinstance(found, Sink), "the plugin is a sink"
        return found


def common_names(kind: PluginType) -> tuple[str, ...]:
    """Properties of every connector of a type."""
    return (*_COMMON, *(_OF_SINKS if kind is PluginType.SINK else _OF_SOURCES))


def read_connector_config(given: Mapping[str, str]) -> ConnectorConfig:
    """Read a config without connecting to anything. Raises `InvalidConnectorConfig`."""
    reader = _Reader(given)
    found = reader.read()
    if found is None:
        raise InvalidConnectorConfig(reader.problems)
    return found


class _Reader:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.problems: list[ConfigProblem] = []

    def read(self) -> ConnectorConfig | None:
        name = self._given.get(NAME, "")
        if not name or not name.isprintable():
            self._complain(NAME, "must be a text without control characters")
        plugin = self._plugin()
        if plugin is None:
            return None
        self._check_unsupported()
        is_sink = plugin.type is PluginType.SINK
        self._number(TASKS_MAX, 1, least=1)
        options, tolerance = self._options(plugin)
        opened = self._opened(plugin, options)
        topics, regex = self._topics() if is_sink else ((), None)
        schema = self._schema(opened) if isinstance(opened, Sink) else None
        topic = self._topic(opened) if isinstance(opened, Source) else ""
        avro = self._avro(opened)
        creation = None if is_sink else self._topic_creation()
        found = ConnectorConfig(
            name=name,
            plugin=plugin,
            options=options,
            topic=topic,
            topics=topics,
            topics_regex=regex,
            key=self._key(),
            schema=schema,
            avro=avro,
            poll_interval_ms=self._number(POLL_INTERVAL, 5_000, least=1),
            batch_max_records=self._number(BATCH_MAX_RECORDS, 10_000, least=1),
            errors=tolerance,
            retry=RetryPolicy(
                timeout_ms=self._number(RETRY_TIMEOUT, 0, least=FOREVER),
                delay_max_ms=self._number(RETRY_DELAY, 60_000, least=1),
            ),
            topic_creation=creation,
            producer_overrides=self._overrides(PRODUCER_OVERRIDE),
            consumer_overrides=self._overrides(CONSUMER_OVERRIDE),
        )
        return None if self.problems else found

    def _complain(self, name: str, message: str) -> None:
        self.problems.append(ConfigProblem(name, message))

    def _plugin(self) -> ConnectorPlugin | None:
        text = self._given.get(CONNECTOR_CLASS)
        if not text:
            self._complain(
                CONNECTOR_CLASS,
                f'Missing required configuration "{CONNECTOR_CLASS}" which has no default value.',
            )
            return None
        try:
            return find_plugin(text, self._given)
        except InvalidOption as error:
            self._complain(CONNECTOR_CLASS, str(error))
            return None

    def _check_unsupported(self) -> None:
        for problem in converter_problems(self._given):
            self.problems.append(problem)
        for name in self._given:
            if is_transform_option(name):
                self._complain(
                    name,
                    "a worker has no transforms: use headwater connect import or export, "
                    "or a pipeline",
                )

    def _options(self, plugin: ConnectorPlugin) -> tuple[dict[str, str], ErrorTolerance]:
        """Options of the connector's class, and what happens to bad records."""
        is_sink = plugin.type is PluginType.SINK
        common = common_names(plugin.type)
        own = plugin.option_names()
        rest = {
            name: text
            for name, text in self._given.items()
            if (name in own or name not in common)
            and not is_transform_option(name)
            and not name.startswith((*_CONVERTERS, PRODUCER_OVERRIDE, CONSUMER_OVERRIDE))
            and name not in (RETRY_TIMEOUT, RETRY_DELAY, CREATION_PARTITIONS, CREATION_REPLICATION)
        }
        try:
            found = read_connector_properties(rest, is_sink=is_sink)
        except InvalidOption as error:
            self._complain(_named_in(str(error), tuple(rest), CONNECTOR_CLASS), str(error))
            return {}, ErrorTolerance()
        if not is_sink and found.errors.is_tolerant:
            self._complain("errors.tolerance", "is for sinks: a source's rows are not decoded")
        return dict(found.options), found.errors

    def _opened(self, plugin: ConnectorPlugin, options: Mapping[str, str]) -> Source | Sink | None:
        try:
            return plugin.open(options)
        except ImportError as error:
            self._complain(CONNECTOR_CLASS, f"{error.name} is not installed")
        except HeadwaterError as error:
            names = (*plugin.option_names(), *options)
            self._complain(_named_in(str(error), names, CONNECTOR_CLASS), str(error))
        return None

    def _topic(self, source: Source) -> str:
        topic = self._given.get(TOPIC, "")
        if source.writes_records:
            if topic or self._given.get(KEY):
                self._complain(TOPIC if topic else KEY, "this source names topics and keys itself")
            return ""
        reason = topic_name_error(topic) if topic else "the topic to write to is missing"
        if reason is not None:
            self._complain(TOPIC, reason)
        return topic

    def _topics(self) -> tuple[tuple[str, ...], str | None]:
        texts = self._given.get(TOPICS, "").split(",")
        topics = tuple(each.strip() for each in texts if each.strip())
        regex = self._given.get(TOPICS_REGEX) or None
        if bool(topics) == bool(regex):
            both = "are mutually exclusive options, but both are set" if topics else "are missing"
            self._complain(TOPICS, f"{TOPICS} and {TOPICS_REGEX} {both}: set one of them")
        for each in topics:
            if (reason := topic_name_error(each)) is not None:
                self._complain(TOPICS, reason)
        if regex is not None:
            try:
                re.compile(regex)
            except re.error as error:
                self._complain(TOPICS_REGEX, f"is not a regular expression: {error}")
        return topics, regex

    def _schema(self, sink: Sink) -> str | None:
        text = self._given.get(SCHEMA) or None
        if sink.reads_records:
            if text is not None:
                self._complain(SCHEMA, "this sink takes records as they are: no schema")
            return None
        if self._has_avro:
            if text is not None:
                self._complain(SCHEMA, "is for JSON: Avro has the columns of the registry")
            if not self._given.get(TOPICS):
                self._complain(TOPICS, "is missing: Avro is read with the schema of a topic")
            return None
        if text is None:
            self._complain(SCHEMA, "is missing: the columns, such as id bigint, name string")
            return None
        try:
            names = [field.name for field in read_schema(text)]
        except HeadwaterError as error:
            self._complain(SCHEMA, str(error))
            return None
        key = self._key()
        if key is not None and key not in names:
            self._complain(KEY, f"the key column {key} is not among {', '.join(names)}")
        return text

    def _key(self) -> str | None:
        """The column with the record key; not several, which a sink may have."""
        key = self._given.get(KEY) or None
        return None if key is None or "," in key else key

    @property
    def _has_avro(self) -> bool:
        return self._given.get(_CONVERTERS[1], "").rpartition(".")[2] == _AVRO

    def _avro(self, opened: Source | Sink | None) -> AvroOptions | None:
        """Options of Confluent's AvroConverter."""
        if not self._has_avro or opened is None:
            return None
        is_raw = opened.writes_records if isinstance(opened, Source) else opened.reads_records
        if is_raw:
            self._complain(_CONVERTERS[1], "this connector encodes and decodes values itself")
        given = {
            name.removeprefix(_VALUE_CONVERTER): text
            for name, text in self._given.items()
            if name.startswith(_VALUE_CONVERTER)
        }
        flags = {name: given.pop(name, "").lower() for name in (_AUTO_REGISTER, _USE_LATEST)}
        try:
            access = registry_access(given)
        except InvalidSetting as error:
            self._complain(_CONVERTERS[1], str(error))
            return None
        if access is None:
            self._complain(f"{_VALUE_CONVERTER}schema.registry.url", "is missing")
            return None
        return AvroOptions(
            part="value",
            registry=access,
            auto_register=flags[_AUTO_REGISTER] != "false",
            use_latest=flags[_USE_LATEST] == "true",
        )

    def _topic_creation(self) -> TopicCreation | None:
        if CREATION_PARTITIONS not in self._given and CREATION_REPLICATION not in self._given:
            return None
        return TopicCreation(
            partitions=self._number(CREATION_PARTITIONS, -1, least=-1),
            replication_factor=self._number(CREATION_REPLICATION, -1, least=-1),
        )

    def _overrides(self, prefix: str) -> dict[str, str]:
        found = {
            name.removeprefix(prefix): text
            for name, text in self._given.items()
            if name.startswith(prefix)
        }
        for name in found:
            if name in _RESERVED:
                self._complain(prefix + name, "cannot be overridden: the worker sets it")
        return found

    def _number(self, name: str, default: int, *, least: int) -> int:
        text = self._given.get(name, str(default)).strip()
        try:
            found = int(text)
        except ValueError:
            found = None
        if found is None or found < least:
            self._complain(name, f"must be a number of at least {least}, not {text}")
            return default
        return found


def converter_problems(given: Mapping[str, str]) -> list[ConfigProblem]:
    """Problems of converters: keys are text, values JSON without a schema, or Avro.

    As in Kafka Connect, a JsonConverter wraps values with their schema unless that is turned off.
    """
    found = []
    key, value = (given.get(name) for name in _CONVERTERS[:2])
    if key is not None and key.rpartition(".")[2] != "StringConverter":
        found.append(ConfigProblem(_CONVERTERS[0], f"must be StringConverter, not {key}"))
    if value is not None and value.rpartition(".")[2] == _AVRO:
        return found
    if value is not None and value.rpartition(".")[2] != "JsonConverter":
        message = f"must be JsonConverter or AvroConverter, not {value}"
        found.append(ConfigProblem(_CONVERTERS[1], message))
    default = "false" if value is None else "true"
    if given.get(SCHEMAS_ENABLE, default).strip().lower() != "false":
        found.append(ConfigProblem(SCHEMAS_ENABLE, "must be false: values have no schema inside"))
    return found


def _named_in(message: str, names: tuple[str, ...], default: str) -> str:
    """The property that a message is about: the first one that it names."""
    found = re.search("|".join(rf"(?<![\w.]){re.escape(name)}(?!\w)" for name in names), message)
    return default if found is None or not names else found[0]
