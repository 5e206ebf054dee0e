"""Quotas under any traffic: no client exceeds its quota, and usage is not forgotten too soon."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.metadata.config_entities import entity_of, resource_of, sanitized
from headwater.metadata_store.zookeeper import znode_paths
from headwater.security.quotas.client_quota_manager import ClientQuotaManager
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity, QuotaKey
from headwater.security.quotas.rate_quota import QuotaClient
from headwater.security.quotas.recent_clients import RecentClients
from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow, TokenBucket

WINDOWS = st.builds(SampleWindow, st.integers(1, 20), st.integers(1, 5_000))
STEPS = st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 50_000)), max_size=60)
NAMES = st.text(min_size=1, max_size=12)
PARTS = NAMES | st.just(DEFAULT)
ENTITIES = (
    st.builds(QuotaEntity, PARTS, st.none(), st.none())
    | st.builds(QuotaEntity, st.none(), PARTS, st.none())
    | st.builds(QuotaEntity, PARTS, PARTS, st.none())
    | st.builds(QuotaEntity, st.none(), st.none(), PARTS)
)


@given(WINDOWS, STEPS)
def test_rate_counts_the_window_and_little_more(
    window: SampleWindow, steps: list[tuple[int, int]]
) -> None:
    rate, now_ms = SampledRate(window), 0
    recorded: list[tuple[int, int]] = []
    for pause_ms, amount in steps:
        now_ms += pause_ms
        rate.record(amount, now_ms)
        recorded.append((now_ms, amount))
        inside = sum(each for at, each in recorded if now_ms - at < window.length_ms)
        # A sample is kept while any of it is in the window.
        nearly = window.length_ms + window.sample_ms
        around = sum(each for at, each in recorded if now_ms - at < nearly)
        assert inside <= rate.total(now_ms) <= around
        assert rate.span_ms(now_ms) >= max(1, (window.samples - 1) * window.sample_ms)


def sent_and_passed(steps: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the bytes that a producer with a quota of 1000 bytes/s sends, and the milliseconds."""
    quotas = ClientQuotaManager(
        window=SampleWindow(11, 1_000), mutation_window=SampleWindow(11, 1_000), limit=10
    )
    quotas.set(QuotaEntity(user="alice"), {QuotaKey.PRODUCER_BYTE_RATE: 1_000})
    now_ms = sent = 0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        sent += amount
        now_ms += quotas.produce.charge(QuotaClient("alice", "app"), amount, now_ms)
    return sent, now_ms


@given(st.lists(st.integers(0, 2_000), max_size=200))
def test_steady_producer_that_obeys_throttling_stays_within_its_quota(
    amounts: list[int],
) -> None:
    """QU-2. A window's quota can be used at once, and the oldest usage expires first."""
    sent, now_ms = sent_and_passed([(0, amount) for amount in amounts])
    assert sent <= 1.1 * now_ms + 12_000


@given(STEPS)
def test_no_producer_gets_more_than_twice_its_quota(
    steps: list[tuple[int, int]],
) -> None:
    """A producer that sends bursts and waits until they expire does. As in Kafka 3.9."""
    sent, now_ms = sent_and_passed(steps)
    assert sent <= 2 * now_ms + 22_000


@given(WINDOWS, st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 500)), max_size=60))
def test_tokens_never_exceed_a_window_and_are_regained_by_waiting(
    window: SampleWindow, steps: list[tuple[int, int]]
) -> None:
    bucket, now_ms, bound = TokenBucket(window), 0, 7.0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert bucket.tokens(bound, now_ms) <= bound * window.length_ms / 1_000 + 1e-6
        bucket.take(amount, bound, now_ms)
        wait_ms = bucket.throttle_ms(bound, now_ms)
        # Rounded to a millisecond, in which less than a hundredth of a token is gained.
        assert bucket.tokens(bound, now_ms + wait_ms) >= -bound / 1_000
        now_ms += wait_ms


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 20)), max_size=80))
def test_most_recent_entities_are_tracked(uses: list[tuple[int, int]]) -> None:
    remembered: RecentClients[int, object] = RecentClients(object, limit=5, idle_ms=3_000)
    now_ms, last = 0, dict[int, int]()
    for pause_ms, key in uses:
        now_ms += pause_ms
        remembered.of(key, now_ms)
        last.pop(key, None)
        last[key] = now_ms
        remembered.expire(now_ms)
        awake = [each for each, at in last.items() if now_ms - at < 3_000]
        assert [each for each, _ in remembered] == awake[-5:]


@given(ENTITIES)
def test_entity_has_one_config_path_and_is_parsed_from_it(
    entity: QuotaEntity,
) -> None:
    resource = resource_of(entity)
    assert entity_of(resource) == entity
    assert znode_paths.resource_at(znode_paths.config_entity(resource)) == resource


@given(NAMES)
def test_quoted_name_has_only_characters_allowed_in_znodes(name: str) -> None:
    assert all(
        letter.isascii() and (letter.isalnum() or letter in "-_.%") for letter in sanitized(name)
    )
