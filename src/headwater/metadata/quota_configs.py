"""Read quotas from the configs of users, client ids and IP addresses.

Note: a value that is not a positive number is ignored, not an error. Kafka's tools may have written
it past the controller.
"""

import math
from collections.abc import Iterator, Mapping

from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import entity_of
from headwater.security.quotas.quota_entities import QuotaEntity, QuotaKey

Quotas = Mapping[QuotaKey, float]


def quotas_of(values: Mapping[str, str]) -> dict[QuotaKey, float]:
    """Return the quotas among the configs of an entity."""
    found = {key: _number(values[key]) for key in QuotaKey if key in values}
    return {key: value for key, value in found.items() if value is not None}


def quotas_in(image: ClusterImage) -> Iterator[tuple[QuotaEntity, dict[QuotaKey, float]]]:
    """Yield all entities that have quotas."""
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
