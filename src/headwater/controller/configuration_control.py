"""Decide AlterConfigs and IncrementalAlterConfigs (CF-1).

AlterConfigs replaces all configs of a resource, IncrementalAlterConfigs changes single ones. The
resulting set is validated as a whole. A change of broker settings must also leave valid topic
defaults.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigOperation, ConfigType, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidSetting, UnknownSetting
from headwater.common.ids import NodeId
from headwater.common.settings.broker_properties import known_setting, parse_broker_value
from headwater.common.settings.declared_settings import UpdateMode
from headwater.common.settings.group_settings import GROUP_SETTINGS, GroupSettings
from headwater.common.settings.setting_types import format_value, split_list
from headwater.common.settings.topic_settings import KINDS
from headwater.common.topic_names import topic_name_error
from headwater.controller.eligible_leader_replicas import (
    changes_after_configs,
    is_elr_enabled,
    refusal_of_config,
)
from headwater.metadata.changes import ConfigsReplaced, MetadataChange, apply
from headwater.metadata.cluster_image import ALL_BROKERS, ClusterImage, ConfigResource
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import (
    StaticConfig,
    broker_settings_for,
    topic_defaults_for,
    unknown_configs,
)
from headwater.protocol.messages import alter_configs as whole
from headwater.protocol.messages import incremental_alter_configs as incremental

_SUPPORTED: Final = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP)

Values = dict[str, str]


def alter_configs(
    image: ClusterImage, request: whole.AlterConfigsRequest, static: StaticConfig
) -> ControllerResult[tuple[whole.AlterConfigsResourceResponse, ...]]:
    """Replace the configs of each resource."""
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
            resource_type=requested.resource_type,
            resource_name=requested.resource_name,
        )
        for requested, (code, reason) in zip(
            request.resources, map(_error_of, outcomes), strict=True
        )
    )
    changes = _changes(image, outcomes, validate_only=request.validate_only)
    return ControllerResult(changes, results)


def incremental_alter_configs(
    image: ClusterImage,
    request: incremental.IncrementalAlterConfigsRequest,
    static: StaticConfig,
) -> ControllerResult[tuple[incremental.AlterConfigsResourceResponse, ...]]:
    """Apply the changes of each resource in one step."""
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
            resource_type=requested.resource_type,
            resource_name=requested.resource_name,
        )
        for requested, (code, reason) in zip(
            request.resources, map(_error_of, outcomes), strict=True
        )
    )
    changes = _changes(image, outcomes, validate_only=request.validate_only)
    return ControllerResult(changes, results)


def _error_of(outcome: ConfigsReplaced | ApiError) -> tuple[ErrorCode, str | None]:
    if isinstance(outcome, ApiError):
        return outcome.code, outcome.reason
    return ErrorCode.NONE, None


def _decide_each(
    requested: Sequence[tuple[int, str]],
    new_values: Callable[[int, ConfigResource], Values | ApiError],
    image: ClusterImage,
    static: StaticConfig,
) -> list[ConfigsReplaced | ApiError]:
    times = Counter(requested)
    outcomes: list[ConfigsReplaced | ApiError] = []
    for index, (resource_type, name) in enumerate(requested):
        if times[resource_type, name] > 1:
            reason = "a resource is in the request more than once"
            outcomes.append(ApiError(ErrorCode.INVALID_REQUEST, reason))
            continue
        error = _check_resource(image, resource_type, name)
        if error:
            outcomes.append(error)
            continue
        resource = ConfigResource(ResourceType(resource_type), name)
        values = new_values(index, resource)
        outcomes.append(
            values if isinstance(values, ApiError) else _validated(image, resource, values, static)
        )
    return outcomes


def _changes(
    image: ClusterImage, outcomes: Sequence[ConfigsReplaced | ApiError], *, validate_only: bool
) -> Sequence[MetadataChange]:
    if validate_only:
        return ()
    changes = [each for each in outcomes if isinstance(each, ConfigsReplaced)]
    if not is_elr_enabled(image):
        return changes
    after = apply(image, changes, image.version)
    return [*changes, *changes_after_configs(after, changes)]


def _check_resource(image: ClusterImage, resource_type: int, name: str) -> ApiError | None:
    if resource_type not in _SUPPORTED:
        reason = f"resource type {resource_type} has no configs"
        return ApiError(ErrorCode.INVALID_REQUEST, reason)
    if resource_type == ResourceType.TOPIC:
        if not name:
            return ApiError(
                ErrorCode.INVALID_REQUEST, "topics have no default entity; a topic name is required"
            )
        illegal = topic_name_error(name)
        if illegal:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        if name not in image.topics:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
        return None
    if resource_type == ResourceType.GROUP:
        # The group need not exist.
        return None if name else ApiError(ErrorCode.INVALID_REQUEST, "a group name is required")
    if name == ALL_BROKERS:
        return None
    if not (name.isascii() and name.isdecimal()):
        return ApiError(ErrorCode.INVALID_REQUEST, f"a broker id must be a number, not {name!r}")
    if image.registration(NodeId(int(name))) is None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"broker {name} does not exist")
    return None


def _replaced(configs: Sequence[whole.AlterableConfig]) -> Values | ApiError:
    error = _check_duplicates([config.name for config in configs])
    nulls = [config.name for config in configs if config.value is None]
    if error or nulls:
        return error or ApiError(ErrorCode.INVALID_REQUEST, f"no value for {', '.join(nulls)}")
    return {config.name: config.value for config in configs if config.value is not None}


def _changed(
    image: ClusterImage,
    resource: ConfigResource,
    configs: Sequence[incremental.AlterableConfig],
    static: StaticConfig,
) -> Values | ApiError:
    error = _check_duplicates([config.name for config in configs])
    if error:
        return error
    values = dict(image.configs_of(*resource))
    for config in configs:
        name, value = config.name, config.value
        if config.config_operation == ConfigOperation.DELETE:
            values.pop(name, None)
            continue
        if value is None:
            return ApiError(ErrorCode.INVALID_REQUEST, f"no value for {name}")
        match config.config_operation:
            case ConfigOperation.SET:
                values[name] = value
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                if _type_of(resource, name) is not ConfigType.LIST:
                    reason = f"{name} is not a list, so it does not support APPEND and SUBTRACT"
                    return ApiError(ErrorCode.INVALID_CONFIG, reason)
                before = values.get(name)
                if before is None:
                    before = _inherited(image, resource, name, static)
                is_append = config.config_operation == ConfigOperation.APPEND
                values[name] = (_appended if is_append else _subtracted)(before, value)
            case other:
                reason = f"unknown config operation {other}"
                return ApiError(ErrorCode.INVALID_REQUEST, reason)
    return values


def _check_duplicates(names: Sequence[str]) -> ApiError | None:
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if not twice:
        return None
    return ApiError(ErrorCode.INVALID_REQUEST, f"given more than once: {', '.join(twice)}")


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
    """Return the list that applies if the resource has none of its own."""
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


def _validated(
    image: ClusterImage, resource: ConfigResource, values: Values, static: StaticConfig
) -> ConfigsReplaced | ApiError:
    """Validate the whole set of configs."""
    change = ConfigsReplaced(resource, values)
    old = image.configs_of(*resource)
    # Unknown configs that Kafka left behind stay, and must not keep known ones from being set.
    left = {name for name in unknown_configs(resource, old) if values.get(name) == old[name]}
    new = {name: value for name, value in values.items() if name not in left}
    try:
        if resource.resource_type is ResourceType.TOPIC:
            topic_defaults_for(image, static).with_overrides(new)
        elif resource.resource_type is ResourceType.GROUP:
            GroupSettings.of(static.settings).with_overrides(values).check(static.settings)
        else:
            if image.is_kraft:
                # Brokers of Apache Kafka have other settings, and check what they forward.
                new = {name: value for name, value in new.items() if _is_dynamic(name)}
            refusal = refusal_of_config(image, resource, old, new)
            if refusal is not None:
                return ApiError(ErrorCode.INVALID_CONFIG, refusal)
            _check_broker_values(resource, new, old)
            changed = apply(image, [change], image.version)
            topic_defaults_for(changed, static)
            if resource.name in (ALL_BROKERS, str(static.node_id)):
                # Only a broker itself can validate its other settings.
                broker_settings_for(changed, static)
    except UnknownSetting as error:
        return ApiError(error.code, str(error))
    except InvalidSetting as error:
        # Kafka 4.1 answers INVALID_REQUEST for an invalid broker config.
        is_broker = resource.resource_type is ResourceType.BROKER
        code = ErrorCode.INVALID_REQUEST if is_broker else error.code
        return ApiError(code, str(error))
    return change


def _is_dynamic(name: str) -> bool:
    """Return whether our brokers have a setting of this name that can be changed."""
    known = known_setting(name)
    return known is not None and known.update_mode is not UpdateMode.READ_ONLY


def _check_broker_values(resource: ConfigResource, values: Values, old: Mapping[str, str]) -> None:
    for name, value in values.items():
        parse_broker_value(name, value)
        known = known_setting(name)
        assert known is not None, "the value has been parsed"
        reach = known.update_mode
        if reach is UpdateMode.READ_ONLY and old.get(name) != value:
            raise InvalidSetting(f"{name} is read-only and cannot be changed dynamically")
        if reach is UpdateMode.PER_BROKER and resource.name == ALL_BROKERS:
            raise InvalidSetting(f"{name} can only be set per broker, not as a cluster default")
