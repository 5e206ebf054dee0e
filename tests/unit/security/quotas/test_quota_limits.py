"""Which quota applies to a client (QU-1)."""

import pytest

from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from headwater.security.quotas.quota_limits import QuotaLimit, QuotaLimits, Sharing

IN_ORDER = [
    QuotaEntity(user="alice", client_id="app"),
    QuotaEntity(user="alice", client_id=DEFAULT),
    QuotaEntity(user="alice"),
    QuotaEntity(user=DEFAULT, client_id="app"),
    QuotaEntity(user=DEFAULT, client_id=DEFAULT),
    QuotaEntity(user=DEFAULT),
    QuotaEntity(client_id="app"),
    QuotaEntity(client_id=DEFAULT),
]
OTHERS = [
    QuotaEntity(user="bob", client_id="app"),
    QuotaEntity(user="bob"),
    QuotaEntity(user="alice", client_id="other"),
    QuotaEntity(client_id="other"),
]


def limits(*entities: QuotaEntity) -> QuotaLimits:
    """Each entity's bound is its index in the list, starting at 1."""
    made = QuotaLimits()
    for bound, entity in enumerate(entities, 1):
        made.set(entity, bound)
    return made


@pytest.mark.parametrize("place", range(len(IN_ORDER)))
def test_most_specific_quota_applies(place: int) -> None:
    """QU-1, removing one level after the other."""
    found = limits(*IN_ORDER[place:], *OTHERS).of("alice", "app")
    assert found is not None
    assert found.bound == 1


def test_user_quota_is_shared_by_its_clients_and_default_quota_is_per_user() -> None:
    of_users = limits(QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT))
    assert of_users.of("alice", "app") == QuotaLimit(1, Sharing("alice", ""))
    assert of_users.of("alice", "other") == QuotaLimit(1, Sharing("alice", ""))
    assert of_users.of("bob", "app") == QuotaLimit(2, Sharing("bob", ""))
    of_clients = limits(QuotaEntity(client_id=DEFAULT))
    assert of_clients.of("alice", "app") == QuotaLimit(1, Sharing("", "app"))
    assert of_clients.of("bob", "app") == QuotaLimit(1, Sharing("", "app"))
    of_both = limits(QuotaEntity(user=DEFAULT, client_id=DEFAULT))
    assert of_both.of("alice", "app") == QuotaLimit(1, Sharing("alice", "app"))


def test_client_without_client_id_only_has_its_user_s_quota() -> None:
    named = limits(QuotaEntity(client_id=DEFAULT), QuotaEntity(user="alice", client_id=DEFAULT))
    assert named.of("alice", "") is None
    named.set(QuotaEntity(user=DEFAULT), 7)
    assert named.of("alice", "") == QuotaLimit(7, Sharing("alice", ""))


def test_client_without_a_quota_is_not_limited() -> None:
    assert limits().of("alice", "app") is None
    assert limits(*OTHERS).of("alice", "app") is None


def test_removed_quota_gives_way_to_the_next_level() -> None:
    both = limits(QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT))
    both.set(QuotaEntity(user="alice"), None)
    both.set(QuotaEntity(user="missing"), None)
    assert both.of("alice", "app") == QuotaLimit(2, Sharing("alice", ""))
