"""Which quota is in force for a client: the most specific one that is there (QU-1).

What a reader would get wrong: a quota of a user is shared by all clients of that user, but one of
`DEFAULT` clients is had by each client for itself. So a limit also says who shares it.
"""

from typing import NamedTuple

from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity


class Sharing(NamedTuple):
    """Who has a limit in common: empty where it does not matter who it is."""

    user: str
    client_id: str


class QuotaLimit(NamedTuple):
    """So much in a second, together."""

    bound: float
    sharing: Sharing


class QuotaLimits:
    """All limits of one kind for users and clients."""

    __slots__ = ("_bounds",)

    def __init__(self) -> None:
        self._bounds: dict[QuotaEntity, float] = {}

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def set(self, entity: QuotaEntity, bound: float | None) -> None:
        """An entity has this limit from now on, or none."""
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound

    def of(self, user: str, client_id: str) -> QuotaLimit | None:
        """The limit in force, or None for whoever has none."""
        bounds = self._bounds
        if not bounds:
            return None
        for entity, sharing in _levels(user, client_id):
            bound = bounds.get(entity)
            if bound is not None:
                return QuotaLimit(bound, sharing)
        return None


def _levels(user: str, client_id: str) -> list[tuple[QuotaEntity, Sharing]]:
    """Where to look, the most specific first."""
    alone, together = Sharing(user, client_id), Sharing(user, "")
    of_user = (QuotaEntity(user=user), together)
    of_any_user = (QuotaEntity(user=DEFAULT), together)
    if not client_id:
        # Not even a default is for clients that do not say who they are. Kafka does this (3.9).
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
