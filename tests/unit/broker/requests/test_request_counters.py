"""Request counters."""

from time import perf_counter_ns

from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.error_codes import ErrorCode
from headwater.common.latency_histogram import BUCKETS, bucket_bound_ns
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.simulation.labs.broker_lab import BrokerLab
from tests.simulation.labs.cluster_lab import topic


def test_responses_are_counted_by_version() -> None:
    counters = RequestCounters(newest=3)
    for version in (0, 3, 3):
        counters.answered(version, perf_counter_ns())
    assert counters.versions == [1, 0, 0, 2, 0]
    assert counters.count == 3


def test_unknown_versions_are_counted_as_one() -> None:
    """Otherwise a client could make a broker store thirty thousand counters."""
    counters = RequestCounters(newest=3)
    for version in (4, 5, 32_767):
        counters.answered(version, perf_counter_ns())
    assert counters.versions == [0, 0, 0, 0, 3]


def test_latency_is_within_the_bound_of_its_bucket() -> None:
    counters = RequestCounters(newest=3)
    took_ns = 3_000_000_000
    counters.answered(0, perf_counter_ns() - took_ns)
    assert sum(counters.buckets) == 1
    assert counters.total_ns >= took_ns
    assert counters.buckets.index(1) >= min(
        index for index in range(BUCKETS) if bucket_bound_ns(index) > took_ns
    )


def test_latency_beyond_all_bounds_is_in_the_last_bucket() -> None:
    counters = RequestCounters(newest=3)
    counters.answered(0, perf_counter_ns() - 10**15)
    assert counters.buckets[-1] == 1


def test_errors_are_counted_by_code() -> None:
    counters = RequestCounters(newest=3)
    counters.failed(ErrorCode.NOT_CONTROLLER)
    counters.failed(ErrorCode.NOT_CONTROLLER)
    assert counters.errors == {ErrorCode.NOT_CONTROLLER: 2}


def test_errors_of_items_are_counted_without_the_handler() -> None:
    lab = BrokerLab()
    lab.create("t")
    names = ("t", "no good name", "u")
    request = CreateTopicsRequest(topics=tuple(topic(each, 1, 1) for each in names))
    lab.ask(request, CreateTopicsResponse)
    assert lab.dispatch.counters[ApiKey.CREATE_TOPICS].errors == {
        ErrorCode.TOPIC_ALREADY_EXISTS: 1,
        ErrorCode.INVALID_TOPIC_EXCEPTION: 1,
    }
