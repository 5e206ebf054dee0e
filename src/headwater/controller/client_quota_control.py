"""Decide AlterClientQuotas and answer DescribeClientQuotas (KIP-546).

Quotas are stored in the configs of users, client ids and IP addresses. Other configs of these
entities, such as SCRAM credentials, stay as they are.

Note: a filter without components matches everything; a strict one without components matches
nothing.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import ConfigsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import resource_of
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.quota_configs import Quotas, quotas_in
from headwater.protocol.messages import alter_client_quotas as alter
from headwater.protocol.messages import describe_client_quotas as describe
from headwater.security.quotas.quota_entities import (
    CLIENT_KEYS,
    DEFAULT,
    LARGEST_WHOLE,
    EntityType,
    QuotaEntity,
    QuotaKey,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2
_SLACK: Final = 1e-6

# AlterClientQuotas.


def alter_client_quotas(
    image: ClusterImage, request: alter.AlterClientQuotasRequest
) -> ControllerResult[tuple[alter.EntryResult, ...]]:
    """Change each entity as a whole or not at all."""
    times = Counter(frozenset(_parts(entry.entity)) for entry in request.entries)
    changes: list[MetadataChange] = []
    results: list[alter.EntryResult] = []
    for entry in request.entries:
        if times[frozenset(_parts(entry.entity))] > 1:
            reason = "an entity is in the request more than once"
            outcome: ConfigsReplaced | ApiError = ApiError(ErrorCode.INVALID_REQUEST, reason)
        else:
            outcome = _altered(image, entry)
        if isinstance(outcome, ConfigsReplaced):
            changes.append(outcome)
        error = outcome if isinstance(outcome, ApiError) else NO_ERROR
        results.append(error_entry(entry, error))
    return ControllerResult(() if request.validate_only else changes, tuple(results))


def error_entry(entry: alter.EntryData, error: ApiError) -> alter.EntryResult:
    return alter.EntryResult(error_code=error.code, error_message=error.reason, entity=entry.entity)


def _altered(image: ClusterImage, entry: alter.EntryData) -> ConfigsReplaced | ApiError:
    entity = _entity(entry.entity)
    if isinstance(entity, ApiError):
        return entity
    twice = [key for key, times in Counter(op.key for op in entry.ops).items() if times > 1]
    if twice:
        return _invalid(f"given more than once: {', '.join(sorted(twice))}")
    resource = resource_of(entity)
    values = dict(image.configs.get(resource, {}))
    for op in entry.ops:
        if op.remove:
            # Other configs of the entity are not quotas and stay.
            if op.key in tuple(QuotaKey):
                values.pop(op.key, None)
            continue
        reason = _check(entity, op.key, op.value)
        if reason is not None:
            return _invalid(reason)
        values[op.key] = _text(QuotaKey(op.key), op.value)
    return ConfigsReplaced(resource, values)


def _entity(entity_data: Sequence[alter.EntityData]) -> QuotaEntity | ApiError:
    parts: dict[EntityType, str] = {}
    for kind, name in _parts(entity_data):
        if kind not in tuple(EntityType):
            return _invalid(f"there are no quotas of the entity type {kind!r}")
        if EntityType(kind) in parts:
            return _invalid(f"entity type {kind} is given twice in one entity")
        if name == "":
            return _invalid(f"the name of a {kind} must not be empty; null means the default")
        parts[EntityType(kind)] = DEFAULT if name is None else name
    entity = QuotaEntity(*(parts.get(kind) for kind in EntityType))
    if not parts:
        return _invalid("an entity needs a user, a client-id or an ip")
    if entity.ip is not None and len(parts) > 1:
        return _invalid("an ip cannot be combined with a user or client-id")
    if entity.ip and not _is_address(entity.ip):
        return _invalid(f"{entity.ip!r} is not an IP address; host names are not resolved")
    return entity


def _check(entity: QuotaEntity, key: str, value: float) -> str | None:
    allowed = CLIENT_KEYS if entity.ip is None else (QuotaKey.CONNECTION_CREATION_RATE,)
    if key not in allowed:
        return f"unknown quota {key!r}, expected one of {', '.join(allowed)}"
    if not math.isfinite(value) or value <= 0:
        return f"{key} must be greater than 0"
    largest = LARGEST_WHOLE.get(QuotaKey(key))
    if largest is not None:
        if value > largest:
            return f"{key} is too large"
        if value % 1 > _SLACK:
            return f"{key} must be a whole number"
    return None


def _text(key: QuotaKey, value: float) -> str:
    """Format as Kafka stores it (3.9)."""
    return str(int(value)) if key in LARGEST_WHOLE else str(float(value))


# DescribeClientQuotas.


def describe_client_quotas(
    image: ClusterImage, request: describe.DescribeClientQuotasRequest
) -> tuple[describe.EntryData, ...] | ApiError:
    """Return all entities that match the filter, sorted."""
    wanted = _wanted(request.components)
    if isinstance(wanted, ApiError):
        return wanted
    found = [
        (entity, quotas)
        for entity, quotas in quotas_in(image)
        if _matches(entity, wanted, is_strict=request.strict)
    ]
    return tuple(_described(entity, quotas) for entity, quotas in sorted(found, key=_order))


def _wanted(
    components: Sequence[describe.ComponentData],
) -> dict[EntityType, str | None] | ApiError:
    """Return the required name of each entity type; None if any name matches."""
    wanted: dict[EntityType, str | None] = {}
    for each in components:
        if not each.entity_type:
            return _invalid("the entity type must not be empty")
        if each.entity_type not in tuple(EntityType):
            reason = f"there are no quotas of the entity type {each.entity_type!r}"
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, reason)
        kind = EntityType(each.entity_type)
        if kind in wanted:
            return _invalid(f"entity type {kind} is in the filter twice")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            return _invalid(f"unknown match type {each.match_type}")
        if (each.match is None) is (each.match_type == _EXACT):
            return _invalid("a name is required for match type EXACT and forbidden for others")
        # An empty name matches nothing; it must not be taken for the default.
        exact = each.match or "\0"
        wanted[kind] = {_EXACT: exact, _DEFAULT: DEFAULT, _ANY: None}[each.match_type]
    if EntityType.IP in wanted and len(wanted) > 1:
        return _invalid("a filter cannot combine an ip with a user or client-id")
    return wanted


def _matches(
    entity: QuotaEntity, wanted: Mapping[EntityType, str | None], *, is_strict: bool
) -> bool:
    parts = entity.parts
    if is_strict and len(parts) != len(wanted):
        return False
    return all(
        kind in parts and (name is None or parts[kind] == name) for kind, name in wanted.items()
    )


def _described(entity: QuotaEntity, quotas: Quotas) -> describe.EntryData:
    return describe.EntryData(
        entity=tuple(
            describe.EntityData(entity_type=kind, entity_name=name or None)
            for kind, name in entity.parts.items()
        ),
        values=tuple(describe.ValueData(key=key, value=value) for key, value in quotas.items()),
    )


def _order(found: tuple[QuotaEntity, Quotas]) -> list[tuple[str, str]]:
    return [(str(kind), name) for kind, name in found[0].parts.items()]


# Helpers.


def _parts(entity_data: Sequence[alter.EntityData]) -> list[tuple[str, str | None]]:
    return [(each.entity_type, each.entity_name) for each in entity_data]


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
