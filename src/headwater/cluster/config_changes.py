"""Changing configs while brokers run (CF-1): AlterConfigs and IncrementalAlterConfigs.

The first replaces a resource's whole set, the second changes single values of it. Either way the
set that would result is judged as a whole. A change of a broker's settings must also leave its
topics with defaults that make sense together.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headwater.cluster.decision import Decision, Refusal
from headwater.cluster.effective import StaticConfig, broker_settings_for, topic_defaults_for
from headwater.cluster.facts import ConfigsReplaced, Fact, apply
from headwater.cluster.image import ALL_BROKERS, ClusterImage, ConfigResource
from headwater.model.broker_properties import known_setting, parse_broker_value
from headwater.model.config_terms import ConfigOperation, ConfigType, ResourceType
from headwater.model.declared_settings import Reach
from headwater.model.errors import ErrorCode
from headwater.model.failures import InvalidSetting, UnknownSetting
from headwater.model.group_settings import GROUP_SETTINGS, GroupSettings
from headwater.model.ids import NodeId
from headwater.model.setting_kinds import format_value, split_list
from headwater.model.topic_names import why_illegal
from headwater.model.topic_settings import KINDS
from headwater.wire.messages import alter_configs as whole
from headwater.wire.messages import incremental_alter_configs as incremental

_SUPPORTED: Final = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP)

Values = dict[str, str]


def alter_configs(
    image: ClusterImage, request: whole.AlterConfigsRequest, static: StaticConfig
) -> Decision[tuple[whole.AlterConfigsResourceResponse, ...]]:
    """Each resource gets exactly the configs that are given for it."""
    outcomes = _decide_each(
        [(each.resource_type, each.resource_name) for each in request.resources],
        lambda index, _: _replaced(request.resources[index].configs),
        image,
        static,
    )
    results = tuple(
        whole.AlterConfigsResourceResponse(
            error_code=code,
            error_message=reason,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        for asked, (code, reason) in zip(request.resources, map(_told, outcomes), strict=True)
    )
    return Decision(_facts(outcomes, validate_only=request.validate_only), results)


def incremental_alter_configs(
    image: ClusterImage,
    request: incremental.IncrementalAlterConfigsRequest,
    static: StaticConfig,
) -> Decision[tuple[incremental.AlterConfigsResourceResponse, ...]]:
    """Each resource gets the changes that are given for it, in one step."""
    outcomes = _decide_each(
        [(each.resource_type, each.resource_name) for each in request.resources],
        lambda index, resource: _changed(image, resource, request.resources[index].configs, static),
        image,
        static,
    )
    results = tuple(
        incremental.AlterConfigsResourceResponse(
            error_code=code,
            error_message=reason,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )
        for asked, (code, reason) in zip(request.resources, map(_told, outcomes), strict=True)
    )
    return Decision(_facts(outcomes, validate_only=request.validate_only), results)


def _told(outcome: ConfigsReplaced | Refusal) -> tuple[ErrorCode, str | None]:
    """What a client hears of an outcome."""
    if isinstance(outcome, Refusal):
        return outcome.code, outcome.reason
    return ErrorCode.NONE, None


def _decide_each(
    asked: Sequence[tuple[int, str]],
    new_values: Callable[[int, ConfigResource], Values | Refusal],
    image: ClusterImage,
    static: StaticConfig,
) -> list[ConfigsReplaced | Refusal]:
    times = Counter(asked)
    outcomes: list[ConfigsReplaced | Refusal] = []
    for index, (resource_type, name) in enumerate(asked):
        if times[resource_type, name] > 1:
            reason = "a resource may stand in a request only once"
            outcomes.append(Refusal(ErrorCode.INVALID_REQUEST, reason))
            continue
        refusal = _refuse_resource(image, resource_type, name)
        if refusal:
            outcomes.append(refusal)
            continue
        resource = ConfigResource(ResourceType(resource_type), name)
        values = new_values(index, resource)
        outcomes.append(
            values if isinstance(values, Refusal) else _judged(image, resource, values, static)
        )
    return outcomes


def _facts(outcomes: Sequence[ConfigsReplaced | Refusal], *, validate_only: bool) -> Sequence[Fact]:
    if validate_only:
        return ()
    return [each for each in outcomes if isinstance(each, ConfigsReplaced)]


def _refuse_resource(image: ClusterImage, resource_type: int, name: str) -> Refusal | None:
    if resource_type not in _SUPPORTED:
        reason = f"resource type {resource_type} has no configs here"
        return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if resource_type == ResourceType.TOPIC:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "there are no default configs of all topics")
        illegal = why_illegal(name)
        if illegal:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if name not in image.topics:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return None
    if resource_type == ResourceType.GROUP:
        # It need not be there yet.
        return None if name else Refusal(ErrorCode.INVALID_REQUEST, "a group has a name")
    if name == ALL_BROKERS:
        return None
    if not (name.isascii() and name.isdecimal()):
        return Refusal(ErrorCode.INVALID_REQUEST, f"a broker's id is a number, and not {name!r}")
    if NodeId(int(name)) not in image.brokers:
        return Refusal(ErrorCode.INVALID_REQUEST, f"there is no broker {name}")
    return None


def _replaced(configs: Sequence[whole.AlterableConfig]) -> Values | Refusal:
    refusal = _refuse_twice([config.name for config in configs])
    nulls = [config.name for config in configs if config.value is None]
    if refusal or nulls:
        return refusal or Refusal(ErrorCode.INVALID_REQUEST, f"no value for {', '.join(nulls)}")
    return {config.name: config.value for config in configs if config.value is not None}


def _changed(
    image: ClusterImage,
    resource: ConfigResource,
    configs: Sequence[incremental.AlterableConfig],
    static: StaticConfig,
) -> Values | Refusal:
    refusal = _refuse_twice([config.name for config in configs])
    if refusal:
        return refusal
    values = dict(image.configs_of(*resource))
    for config in configs:
        name, value = config.name, config.value
        if config.config_operation == ConfigOperation.DELETE:
            values.pop(name, None)
            continue
        if value is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"no value for {name}")
        match config.config_operation:
            case ConfigOperation.SET:
                values[name] = value
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                if _type_of(resource, name) is not ConfigType.LIST:
                    reason = f"{name} is no list, so nothing can be added or taken away"
                    return Refusal(ErrorCode.INVALID_CONFIG, reason)
                before = values.get(name)
                if before is None:
                    before = _inherited(image, resource, name, static)
                is_append = config.config_operation == ConfigOperation.APPEND
                values[name] = (_appended if is_append else _subtracted)(before, value)
            case other:
                reason = f"there is no config operation {other}"
                return Refusal(ErrorCode.INVALID_REQUEST, reason)
    return values


def _refuse_twice(names: Sequence[str]) -> Refusal | None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if not twice:
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"given more than once: {', '.join(twice)}")


def _type_of(resource: ConfigResource, name: str) -> ConfigType | None:
    if resource.resource_type is ResourceType.TOPIC:
        return KINDS[name].config_type if name in KINDS else None
    if resource.resource_type is ResourceType.GROUP:
        return GROUP_SETTINGS[name].kind.config_type if name in GROUP_SETTINGS else None
    known = known_setting(name)
    return known.kind.config_type if known is not None else None


def _inherited(
    image: ClusterImage, resource: ConfigResource, name: str, static: StaticConfig
) -> str:
    """The list that is in force when the resource has none of its own."""
    if resource.resource_type is ResourceType.TOPIC:
        defaults = topic_defaults_for(image, static)
        return format_value(getattr(defaults, name.replace(".", "_"))) or ""
    known = known_setting(name)
    default = (known and format_value(known.default)) or ""
    all_brokers = image.configs_of(ResourceType.BROKER, ALL_BROKERS)
    return all_brokers.get(name) or static.texts.get(name, default)


def _appended(before: str, added: str) -> str:
    return ",".join(dict.fromkeys(split_list(before) + split_list(added)))


def _subtracted(before: str, taken: str) -> str:
    gone = split_list(taken)
    return ",".join(item for item in split_list(before) if item not in gone)


def _judged(
    image: ClusterImage, resource: ConfigResource, values: Values, static: StaticConfig
) -> ConfigsReplaced | Refusal:
    """Whether the whole set can be in force."""
    change = ConfigsReplaced(resource, values)
    try:
        if resource.resource_type is ResourceType.TOPIC:
            topic_defaults_for(image, static).with_overrides(values)
        elif resource.resource_type is ResourceType.GROUP:
            GroupSettings.of(static.settings).with_overrides(values).check(static.settings)
        else:
            _check_broker_values(resource, values, image.configs_of(*resource))
            changed = apply(image, [change], image.version)
            topic_defaults_for(changed, static)
            if resource.name in (ALL_BROKERS, str(static.node_id)):
                # What another broker would say to it, only that one knows.
                broker_settings_for(changed, static)
    except UnknownSetting as error:
        return Refusal(error.code, str(error))
    except InvalidSetting as error:
        # Kafka (4.1) calls a bad value of a broker a bad request.
        is_broker = resource.resource_type is ResourceType.BROKER
        code = ErrorCode.INVALID_REQUEST if is_broker else error.code
        return Refusal(code, str(error))
    return change


def _check_broker_values(resource: ConfigResource, values: Values, old: Mapping[str, str]) -> None:
    for name, value in values.items():
        parse_broker_value(name, value)
        known = known_setting(name)
        assert known is not None, "its value has been read"
        reach = known.reach
        if reach is Reach.READ_ONLY and old.get(name) != value:
            raise InvalidSetting(f"{name} cannot change while a broker runs")
        if reach is Reach.PER_BROKER and resource.name == ALL_BROKERS:
            raise InvalidSetting(f"{name} can only be set for one broker at a time")
