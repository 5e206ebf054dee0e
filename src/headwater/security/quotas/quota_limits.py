"""Find a client's quota: the most specific one that is set (QU-1).

Note: a user's quota is shared by all clients of that user, but a `DEFAULT` client-id quota is
granted to each client id separately. So a limit also says which clients share it.
"""

from typing import NamedTuple

from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity


class Sharing(NamedTuple):
    """Clients that share a limit; a part is empty if it does not matter."""

    user: str
    client_id: str


class QuotaLimit(NamedTuple):
    """Limit per second for all clients that share it."""

    bound: float
    sharing: Sharing


class QuotaLimits:
    """All limits of one quota key."""

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """Set or remove the limit of an entity."""
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound

    def of(self, user: str, client_id: str) -> QuotaLimit | None:
        """The limit that applies to a client, or None."""
        bounds = self._bounds
        if not bounds:
            return None
        for entity, sharing in _levels(user, client_id):
            bound = bounds.get(entity)
            if bound is not None:
                return QuotaLimit(bound, sharing)
        return None


def _levels(user: str, client_id: str) -> list[tuple[QuotaEntity, Sharing]]:
    """Entities to look up, most specific first."""
    alone, together = Sharing(user, client_id), Sharing(user, "")
    of_user = (QuotaEntity(user=user), together)
    of_any_user = (QuotaEntity(user=DEFAULT), together)
    if not client_id:
        # As in Kafka (3.9), client-id quotas do not apply to an empty client id, not even defaults.
        return [of_user, of_any_user]
    own = Sharing("", client_id)
    return [
        (QuotaEntity(user=user, client_id=client_id), alone),
        (QuotaEntity(user=user, client_id=DEFAULT), alone),
        of_user,
        (QuotaEntity(user=DEFAULT, client_id=client_id), alone),
        (QuotaEntity(user=DEFAULT, client_id=DEFAULT), alone),
        of_any_user,
        (QuotaEntity(client_id=client_id), own),
        (QuotaEntity(client_id=DEFAULT), own),
    ]
