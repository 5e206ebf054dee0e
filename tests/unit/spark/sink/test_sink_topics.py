"""Topics of a sink are looked up when a query starts, and not with every batch."""

from headwater.spark.sink.sink_topics import FoundTopics


def test_a_topic_that_was_found_is_known_for_a_minute() -> None:
    now_s = 100.0
    found = FoundTopics(lambda: now_s)
    found.add(("there:9092", "orders"))
    assert ("there:9092", "orders") in found
    assert ("elsewhere:9092", "orders") not in found
    now_s += FoundTopics.KEPT_S
    assert ("there:9092", "orders") not in found


def test_the_number_of_known_topics_is_bounded() -> None:
    found = FoundTopics(lambda: 0.0)
    for number in range(FoundTopics.TOPICS_MAX + 1):
        found.add(("there:9092", f"topic-{number}"))
    assert ("there:9092", "topic-0") not in found
    assert ("there:9092", f"topic-{FoundTopics.TOPICS_MAX}") in found
