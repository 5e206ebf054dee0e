"""Describe effective configs and their sources: DescribeConfigs.

A config lists all places that set it, the effective one first. For a topic's inherited configs the
list starts at the first synonym, so a retention that comes from `log.retention.hours` is shown as a
default, as in Kafka 4.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigSource, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.settings.broker_properties import (
    known_setting,
    known_settings,
    parse_broker_value,
)
from headwater.common.settings.declared_settings import BrokerSetting, UpdateMode
from headwater.common.settings.group_settings import GROUP_SETTINGS, GroupSettings
from headwater.common.settings.listener_settings import scoped_name, scoped_setting
from headwater.common.settings.setting_types import format_value
from headwater.common.settings.topic_settings import KINDS, TopicSettings, parse_value
from headwater.common.settings.topic_synonyms import TOPIC_SETTINGS
from headwater.common.topic_names import topic_name_error
from headwater.metadata.cluster_image import ALL_BROKERS, ClusterImage
from headwater.metadata.effective_configs import (
    StaticConfig,
    broker_texts,
    settings_for,
    topic_defaults_for,
)
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Entries = tuple[DescribeConfigsResourceResult, ...]

# Kafka requires node.id, so the default of Headwater is not shown to clients.
_WITHOUT_DEFAULT: Final = ("node.id",)

# Kafka 4.1 sends an empty string here where other APIs have null.
_NO_REASON: Final = ""
_FOUND: Final = ApiError(ErrorCode.NONE, _NO_REASON)


def describe_config(
    image: ClusterImage,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    static: StaticConfig,
) -> DescribeConfigsResult:
    """Describe one resource with the details that the request asks for."""
    outcome = _describe(image, resource, static)
    error = outcome if isinstance(outcome, ApiError) else _FOUND
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=() if isinstance(outcome, ApiError) else _requested(outcome, resource, request),
    )


def topic_entries(
    image: ClusterImage,
    static: StaticConfig,
    *,
    overrides: Mapping[str, str],
    settings: TopicSettings,
) -> Entries:
    """Return every config of a topic with these overrides, sorted by name."""
    places = _places(image, static)
    return tuple(
        DescribeConfigsResourceResult(
            name=name,
            value=format_value(getattr(settings, name.replace(".", "_"))),
            config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            synonyms=synonyms,
            config_type=KINDS[name].config_type,
            documentation=TOPIC_SETTINGS[name].doc,
        )
        for name in sorted(KINDS)
        for synonyms in [_topic_synonyms(name, overrides, places)]
    )


def _describe(
    image: ClusterImage, resource: DescribeConfigsResource, static: StaticConfig
) -> Entries | ApiError:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _describe_topic(image, name, static)
        case ResourceType.BROKER if name == ALL_BROKERS:
            return tuple(_all_brokers_entries(image))
        case ResourceType.BROKER if name == str(static.node_id):
            return tuple(_broker_entries(image, static))
        case ResourceType.BROKER:
            reason = f"this is broker {static.node_id}; request the configs of {name!r} from it"
            return ApiError(ErrorCode.INVALID_REQUEST, reason)
        case ResourceType.GROUP if name:
            return tuple(_group_entries(image, name, static))
        case ResourceType.GROUP:
            return ApiError(ErrorCode.INVALID_REQUEST, "a group name is required")
        case other:
            return ApiError(ErrorCode.INVALID_REQUEST, f"resource type {other} has no configs")


def _describe_topic(image: ClusterImage, name: str, static: StaticConfig) -> Entries | ApiError:
    illegal = topic_name_error(name)
    if illegal:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if name not in image.topics:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NO_REASON)
    settings = settings_for(image, name, topic_defaults_for(image, static))
    overrides = image.configs_of(ResourceType.TOPIC, name)
    return topic_entries(image, static, overrides=overrides, settings=settings)


def _broker_entries(
    image: ClusterImage, static: StaticConfig
) -> Iterator[DescribeConfigsResourceResult]:
    texts = broker_texts(image, static)
    places = _places(image, static)
    for name, setting in sorted({**known_settings(), **_settings_of_listeners(texts)}.items()):
        value = parse_broker_value(name, texts[name]) if name in texts else setting.default
        scoped = scoped_name(name)
        synonyms = tuple(_found(name, [name, scoped.setting] if scoped else [name], places))
        yield DescribeConfigsResourceResult(
            name=name,
            value=format_value(value),
            read_only=setting.update_mode is UpdateMode.READ_ONLY,
            is_sensitive=setting.kind.is_secret,
            config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            synonyms=synonyms,
            config_type=setting.kind.config_type,
            documentation=setting.doc,
        )


def _settings_of_listeners(texts: Mapping[str, str]) -> dict[str, BrokerSetting]:
    """Return the settings with a listener prefix that are set."""
    found = ((name, scoped_setting(name)) for name in texts)
    return {name: setting for name, setting in found if setting is not None}


def _all_brokers_entries(image: ClusterImage) -> Iterator[DescribeConfigsResourceResult]:
    """Only configs that are set as cluster defaults; other sources differ by broker."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, value in sorted(image.configs_of(ResourceType.BROKER, ALL_BROKERS).items()):
        setting = known_setting(name)
        if setting is None:
            # Written to ZooKeeper by a Kafka tool, but not supported here.
            continue
        shown = _shown(name, value)
        yield DescribeConfigsResourceResult(
            name=name,
            value=shown,
            read_only=setting.update_mode is UpdateMode.READ_ONLY,
            is_sensitive=setting.kind.is_secret,
            config_source=source,
            synonyms=(DescribeConfigsSynonym(name=name, value=shown, source=source),),
            config_type=setting.kind.config_type,
            documentation=setting.doc,
        )


def _group_entries(
    image: ClusterImage, group_id: str, static: StaticConfig
) -> Iterator[DescribeConfigsResourceResult]:
    """Describe the configs of a group, which need not exist.

    Values from broker settings are shown as defaults, not under the broker setting's name, as in
    Kafka 4.1.
    """
    own = image.configs_of(ResourceType.GROUP, group_id)
    settings = GroupSettings.of(static.settings).with_overrides(own)
    for name, setting in GROUP_SETTINGS.items():
        value = format_value(getattr(settings, name.replace(".", "_")))
        source = ConfigSource.GROUP_CONFIG if name in own else ConfigSource.DEFAULT_CONFIG
        yield DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=source,
            synonyms=(DescribeConfigsSynonym(name=name, value=value, source=source),),
            config_type=setting.kind.config_type,
            documentation=known_settings()[setting.synonym].doc,
        )


Places = Sequence[tuple[ConfigSource, Mapping[str, str]]]


def _places(image: ClusterImage, static: StaticConfig) -> Places:
    """Sources of broker configs by precedence, without the defaults."""
    return (
        (
            ConfigSource.DYNAMIC_BROKER_CONFIG,
            image.configs_of(ResourceType.BROKER, str(static.node_id)),
        ),
        (
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            image.configs_of(ResourceType.BROKER, ALL_BROKERS),
        ),
        (ConfigSource.STATIC_BROKER_CONFIG, static.texts),
    )


def _topic_synonyms(
    name: str, overrides: Mapping[str, str], places: Places
) -> tuple[DescribeConfigsSynonym, ...]:
    names = TOPIC_SETTINGS[name].synonyms
    inherited = tuple(_found(names[0], names, places)) if names else ()
    if name not in overrides:
        return inherited
    value = format_value(parse_value(name, overrides[name]))
    source = ConfigSource.TOPIC_CONFIG
    return (DescribeConfigsSynonym(name=name, value=value, source=source), *inherited)


def _found(first: str, names: Sequence[str], places: Places) -> list[DescribeConfigsSynonym]:
    """Return all values of these names by precedence, from the first of `first` on."""
    found = [
        DescribeConfigsSynonym(name=name, value=_shown(name, values[name]), source=source)
        for source, values in places
        for name in names
        if name in values
    ]
    source = ConfigSource.DEFAULT_CONFIG
    for name in names:
        # A setting of one listener falls back to that of all listeners.
        default = format_value(known_settings()[name].default) if name in known_settings() else None
        if default is not None and name not in _WITHOUT_DEFAULT:
            found.append(DescribeConfigsSynonym(name=name, value=default, source=source))
    start = next((index for index, each in enumerate(found) if each.name == first), len(found))
    return found[start:]


def _shown(name: str, text: str) -> str | None:
    setting = known_setting(name)
    return None if setting is not None and setting.kind.is_secret else text


def _requested(
    entries: Entries, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> Entries:
    """Select the requested names; an empty list means all, as in Kafka 4.1."""
    wanted = resource.configuration_keys
    return tuple(
        DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
            config_source=entry.config_source,
            synonyms=entry.synonyms if request.include_synonyms else (),
            config_type=entry.config_type,
            documentation=entry.documentation if request.include_documentation else None,
        )
        for entry in entries
        if not wanted or entry.name in wanted
    )
