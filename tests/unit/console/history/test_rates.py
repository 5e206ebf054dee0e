"""Rates from two readings of a cluster, and request times from brokers' metrics."""

from dataclasses import replace
from math import inf

import pytest

from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import TopicPartition
from headwater.console.history.broker_metrics import (
    BrokerReading,
    broker_reading,
    request_latency_ms,
)
from headwater.console.history.metrics_addresses import metrics_location, parse_location
from headwater.console.history.rates import ClusterReading, sample
from headwater.console.history.series import Measure, SeriesKey

TEA, MORE_TEA, CAKE = TopicPartition("tea", 0), TopicPartition("tea", 1), TopicPartition("cake", 0)
PREFIX = "kafka_network_requestmetrics"
METRICS = BrokerReading(bytes_in=100, bytes_out=50, request_times={})
BEFORE = ClusterReading(
    steady_ms=0,
    log_ends={TEA: 10, CAKE: 5},
    leader_sizes={TEA: 1_000, CAKE: 900},
    topic_sizes={"tea": 2_000, "cake": 900},
    broker_sizes={1: 1_900, 2: 1_000},
    broker_replica_sizes={1: {TEA: 1_000, CAKE: 900}, 2: {TEA: 1_000}},
    group_lags={"drinkers": 4},
    metrics={1: METRICS},
)


def test_first_reading_has_sizes_and_lags_but_no_rates() -> None:
    found = sample(None, BEFORE)
    assert found == {
        SeriesKey(Measure.TOPIC_SIZE, "tea"): 2_000,
        SeriesKey(Measure.TOPIC_SIZE, "cake"): 900,
        SeriesKey(Measure.BROKER_SIZE, "1"): 1_900,
        SeriesKey(Measure.BROKER_SIZE, "2"): 1_000,
        SeriesKey(Measure.GROUP_LAG, "drinkers"): 4,
        SeriesKey(Measure.TOTAL, "size"): 2_900,
        SeriesKey(Measure.TOTAL, "lag"): 4,
    }


def test_rates_do_not_count_partitions_that_are_new_or_went_back() -> None:
    now = replace(
        BEFORE,
        steady_ms=2_000,
        log_ends={TEA: 14, MORE_TEA: 1_000, CAKE: 0},
        leader_sizes={TEA: 1_100, MORE_TEA: 5_000, CAKE: 10},
        broker_replica_sizes={1: {TEA: 1_100, CAKE: 10}, 2: {TEA: 1_100}, 3: {TEA: 7}},
    )
    found = sample(BEFORE, now)
    rates = {
        key: found[key]
        for key in (
            SeriesKey(Measure.TOPIC_RECORDS, "tea"),
            SeriesKey(Measure.TOPIC_RECORDS, "cake"),
            SeriesKey(Measure.TOPIC_GROWTH, "tea"),
            SeriesKey(Measure.BROKER_GROWTH, "1"),
            SeriesKey(Measure.TOTAL, "records"),
            SeriesKey(Measure.TOTAL, "growth"),
        )
    }
    assert list(rates.values()) == [2, 0, 50, 50, 2, 50]
    assert SeriesKey(Measure.BROKER_GROWTH, "3") not in found


def test_metrics_of_a_restarted_broker_count_from_zero() -> None:
    metrics = {
        1: replace(METRICS, bytes_in=30, bytes_out=90),
        2: replace(METRICS, bytes_in=9_999),
    }
    found = sample(BEFORE, replace(BEFORE, steady_ms=10_000, metrics=metrics))
    assert found[SeriesKey(Measure.BROKER_BYTES_IN, "1")] == 3
    assert found[SeriesKey(Measure.TOTAL, "bytes-in")] == 3
    assert found[SeriesKey(Measure.TOTAL, "bytes-out")] == 4


def test_counters_are_summed_over_topics_once() -> None:
    name = "kafka_server_brokertopicmetrics"
    ours = (
        f'# HELP {name}_bytesin_total Bytes.\n{name}_bytesin_total{{topic="a"}} 5\n'
        f'{name}_bytesin_total{{topic="b"}} 7\n{name}_bytesout_total{{topic="a"}} 2\n'
    )
    found = broker_reading(ours)
    assert (found.bytes_in, found.bytes_out) == (12, 2)
    assert broker_reading(f"{ours}{name}_bytesin_total 13\n").bytes_in == 13


def buckets(*counts: float) -> str:
    lines = [
        f'{PREFIX}_totaltime_seconds_bucket{{request="Produce",le="{bound}"}} {n}'
        for bound, n in zip(("0.001", "0.01", "0.1", "+Inf"), counts, strict=True)
    ]
    return "\n".join(lines)


def test_latency_is_the_99th_percentile_between_two_readings() -> None:
    old = broker_reading(buckets(1_000, 1_000, 1_000, 1_000))
    new = broker_reading(buckets(1_000, 1_098, 1_100, 1_100))
    assert old.request_times["Produce"][inf] == 1_000
    found = request_latency_ms([(old, new)])
    assert found == {"Produce": pytest.approx(55)}
    assert request_latency_ms([(new, new)]) == {}
    restarted = broker_reading(buckets(99, 100, 100, 100))
    assert request_latency_ms([(new, restarted)]) == {"Produce": pytest.approx(1)}


def test_metrics_are_only_read_from_hosts_of_the_cluster() -> None:
    """A broker's configs name the port only: they cannot make the console ask other machines."""
    for listener in ("0.0.0.0:9100", ":9100", "[::]:9100", "169.254.169.254:9100"):
        location = metrics_location("broker.example", listener)
        assert str(location) == "http://broker.example:9100/metrics"
    unusable: tuple[str | None, ...] = (
        None,
        "",
        "a:0",
        "http://evil.example/secret",
        "a:9100/../admin",
        "a:99999",
    )
    for unusable_one in unusable:
        assert metrics_location("broker.example", unusable_one) is None


def test_metrics_addresses_of_the_user_have_host_and_port() -> None:
    assert str(parse_location("http://a:9100/metrics")) == "http://a:9100/metrics"
    for text in ("a", ":9100", "a:0"):
        with pytest.raises(InvalidSetting):
            parse_location(text)
