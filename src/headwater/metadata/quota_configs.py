"""Quotas as they stand among the configs of users, clients and addresses.

What a reader would get wrong: a value that is no number, or not above zero, is not an error here.
Kafka's tools may have written it past the controller, and it limits nobody.
"""

import math
from collections.abc import Iterator, Mapping

from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import entity_of
from headwater.security.quotas.quota_entities import QuotaEntity, QuotaKey

Quotas = Mapping[QuotaKey, float]


def quotas_of(values: Mapping[str, str]) -> dict[QuotaKey, float]:
    """The quotas among somebody's configs."""
    found = {key: _number(values[key]) for key in QuotaKey if key in values}
    return {key: value for key, value in found.items() if value is not None}


def quotas_in(image: ClusterImage) -> Iterator[tuple[QuotaEntity, dict[QuotaKey, float]]]:
    """All entities that have quotas."""
    for resource, values in image.configs.items():
        entity = entity_of(resource)
        if entity is not None and (quotas := quotas_of(values)):
            yield entity, quotas


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
