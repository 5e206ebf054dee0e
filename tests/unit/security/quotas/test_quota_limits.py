"""Which quota is in force for whom (QU-1)."""

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
    """Each entity's bound is its place in the list, from 1."""
    made = QuotaLimits()
    for bound, entity in enumerate(entities, 1):
        made.set(entity, bound)
    return made


@pytest.mark.parametrize("place", range(len(IN_ORDER)))
def test_the_most_specific_quota_that_is_there_is_in_force(place: int) -> None:
    """QU-1, one level after the other taken away."""
    found = limits(*IN_ORDER[place:], *OTHERS).of("alice", "app")
    assert found is not None
    assert found.bound == 1


def test_a_quota_of_a_user_is_shared_by_his_clients_and_one_of_default_users_by_nobody() -> None:
    of_users = limits(QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT))
    assert of_users.of("alice", "app") == QuotaLimit(1, Sharing("alice", ""))
    assert of_users.of("alice", "other") == QuotaLimit(1, Sharing("alice", ""))
    assert of_users.of("bob", "app") == QuotaLimit(2, Sharing("bob", ""))
    of_clients = limits(QuotaEntity(client_id=DEFAULT))
    assert of_clients.of("alice", "app") == QuotaLimit(1, Sharing("", "app"))
    assert of_clients.of("bob", "app") == QuotaLimit(1, Sharing("", "app"))
    of_both = limits(QuotaEntity(user=DEFAULT, client_id=DEFAULT))
    assert of_both.of("alice", "app") == QuotaLimit(1, Sharing("alice", "app"))


def test_a_client_without_a_name_has_no_quota_but_its_users() -> None:
    named = limits(QuotaEntity(client_id=DEFAULT), QuotaEntity(user="alice", client_id=DEFAULT))
    assert named.of("alice", "") is None
    named.set(QuotaEntity(user=DEFAULT), 7)
    assert named.of("alice", "") == QuotaLimit(7, Sharing("alice", ""))


def test_whoever_has_no_quota_has_no_limit() -> None:
    assert limits().of("alice", "app") is None
    assert limits(*OTHERS).of("alice", "app") is None


def test_a_quota_that_is_taken_away_gives_way_to_the_next_one() -> None:
    both = limits(QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT))
    both.set(QuotaEntity(user="alice"), None)
    both.set(QuotaEntity(user="nobody"), None)
    assert both.of("alice", "app") == QuotaLimit(2, Sharing("alice", ""))
