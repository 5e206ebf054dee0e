"""What is counted of requests."""

from time import perf_counter_ns

from headwater.broker.request_counters import BUCKETS, RequestCounters, bucket_bound_ns
from headwater.model.errors import ErrorCode


def test_answers_are_counted_by_version() -> None:
    counters = RequestCounters(newest=3)
    for version in (0, 3, 3):
        counters.answered(version, perf_counter_ns())
    assert counters.versions == [1, 0, 0, 2, 0]
    assert counters.count == 3


def test_all_versions_that_we_do_not_know_are_counted_as_one() -> None:
    """Or a client could make a broker remember thirty thousand numbers."""
    counters = RequestCounters(newest=3)
    for version in (4, 5, 32_767):
        counters.answered(version, perf_counter_ns())
    assert counters.versions == [0, 0, 0, 0, 3]


def test_a_time_is_in_no_bucket_whose_bound_it_exceeds() -> None:
    counters = RequestCounters(newest=3)
    took_ns = 3_000_000_000
    counters.answered(0, perf_counter_ns() - took_ns)
    assert sum(counters.buckets) == 1
    assert counters.total_ns >= took_ns
    assert counters.buckets.index(1) >= min(
        index for index in range(BUCKETS) if bucket_bound_ns(index) > took_ns
    )


def test_a_time_beyond_all_bounds_is_in_the_last_bucket() -> None:
    counters = RequestCounters(newest=3)
    counters.answered(0, perf_counter_ns() - 10**15)
    assert counters.buckets[-1] == 1


def test_errors_are_counted_by_code() -> None:
    counters = RequestCounters(newest=3)
    counters.failed(ErrorCode.NOT_CONTROLLER)
    counters.failed(ErrorCode.NOT_CONTROLLER)
    assert counters.errors == {ErrorCode.NOT_CONTROLLER: 2}
