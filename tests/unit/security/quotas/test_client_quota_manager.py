"""Throttle times of clients."""

from headwater.security.quotas.client_quota_manager import ClientQuotaManager
from headwater.security.quotas.connection_rate_quota import ConnectionRateQuota
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity, QuotaKey
from headwater.security.quotas.rate_quota import QuotaClient
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampleWindow

WINDOW = SampleWindow(11, 1_000)
APP = QuotaClient("alice", "app")
ALICE = QuotaEntity(user="alice")


def quotas(most: int = 100) -> ClientQuotaManager:
    return ClientQuotaManager(window=WINDOW, mutation_window=WINDOW, limit=most)


def test_no_quota_applies_until_one_is_set() -> None:
    made = quotas()
    assert not made
    made.set(ALICE, {QuotaKey.REQUEST_PERCENTAGE: 5})
    assert made
    assert made.produce.charge(APP, 1e9, 0) == 0
    made.set(ALICE, {})
    assert not made


def test_producer_above_its_rate_is_throttled() -> None:
    made = quotas()
    made.set(ALICE, {QuotaKey.PRODUCER_BYTE_RATE: 1_000})
    assert made.produce.charge(APP, 10_000, 0) == 0
    assert made.produce.charge(APP, 5_000, 0) == 5_000
    assert made.produce.charge(QuotaClient("bob", "app"), 5_000, 0) == 0
    # Shared by all clients of this user.
    assert made.produce.charge(QuotaClient("alice", "other"), 0, 0) == 5_000


def test_consumer_above_its_rate_gets_nothing_and_is_not_charged() -> None:
    made = quotas()
    made.set(ALICE, {QuotaKey.CONSUMER_BYTE_RATE: 1_000})
    assert made.fetch.max_burst(APP) == 10_000
    assert made.fetch.charge_if_within(APP, 9_000, 0) == 0
    assert made.fetch.charge_if_within(APP, 2_000, 0) == 1_000
    assert made.fetch.charge_if_within(APP, 1_000, 0) == 0


def test_batch_larger_than_a_whole_window_is_returned_to_an_idle_consumer() -> None:
    made = quotas()
    made.set(ALICE, {QuotaKey.CONSUMER_BYTE_RATE: 1_000})
    assert made.fetch.charge_if_within(APP, 50_000, 0) == 0
    assert made.fetch.charge_if_within(APP, 1, 5_000) > 0
    assert made.fetch.charge_if_within(APP, 50_000, 11_000) == 0


def test_request_quota_throttles_for_at_most_one_sample() -> None:
    """QU-2: the request quota's wait is capped."""
    made = quotas()
    made.set(ALICE, {QuotaKey.REQUEST_PERCENTAGE: 1})
    assert made.worked(APP, 99_000_000, 0) == 0
    assert made.worked(APP, 2_000_000, 0) == 100
    assert made.worked(APP, 10_000_000_000, 0) == 1_000


def test_strict_client_is_rejected_once_the_bucket_is_below_zero() -> None:
    """QU-4."""
    made = quotas()
    made.set(ALICE, {QuotaKey.CONTROLLER_MUTATION_RATE: 1})
    first = made.mutation.allowance(APP, is_strict=True, now_ms=0)
    assert first is not None
    assert first.take(15)
    assert first.throttle_ms(0) == 0
    assert not first.take(1)
    assert first.throttle_ms(0) == 4_000
    assert first.throttle_ms(1_500) == 2_500
    assert first.throttle_ms(9_000) == 0
    later = made.mutation.allowance(APP, is_strict=True, now_ms=4_000)
    assert later is not None
    assert later.take(1)


def test_older_client_is_served_and_then_throttled() -> None:
    """QU-4."""
    made = quotas()
    made.set(ALICE, {QuotaKey.CONTROLLER_MUTATION_RATE: 1})
    allowance = made.mutation.allowance(APP, is_strict=False, now_ms=0)
    assert allowance is not None
    assert allowance.take(15)
    assert allowance.take(2)
    assert allowance.throttle_ms(0) == 6_000
    assert made.mutation.allowance(QuotaClient("bob", ""), is_strict=True, now_ms=0) is None


def test_rejected_connections_are_not_counted() -> None:
    rates = ConnectionRateQuota(WINDOW, limit=10)
    assert not rates
    rates.set(DEFAULT, 1)
    rates.set("10.0.0.1", 5)
    rates.set("::0001", 2)
    assert rates
    assert [rates.throttle_ms("10.9.9.9", 0) for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert [rates.throttle_ms("10.0.0.1", 0) for _ in range(51)] == [0] * 50 + [200]
    assert [rates.throttle_ms("::1", 0) for _ in range(21)] == [0] * 20 + [500]
    # Rejected attempts do not count.
    assert {rates.throttle_ms("10.9.9.9", 10_000) for _ in range(100)} == {1_000}
    assert rates.throttle_ms("10.9.9.9", 11_000) == 0
    rates.set(DEFAULT, None)
    assert rates.throttle_ms("10.0.0.2", 11_000) == 0


def test_idle_clients_are_dropped_and_their_number_is_bounded() -> None:
    remembered: RecentClients[str, list[int]] = RecentClients(list, limit=2)
    remembered.of("a", 0).append(1)
    remembered.of("b", 1).append(2)
    assert remembered.of("a", 2) == [1]
    remembered.of("c", 3)
    assert [key for key, _ in remembered] == ["a", "c"]
    remembered.expire(3_600_002)
    assert [key for key, _ in remembered] == ["c"]
    assert len(remembered) == 1
    assert remembered.of("a", 3_600_003) == []
