"""Prometheus text format, and metrics of the process."""

import os

from headwater.broker.metrics.process_metrics import process_age_s, process_families
from headwater.broker.metrics.prometheus_exposition import (
    Family,
    Sample,
    counter,
    exposition,
    gauge,
)


def text_of(*families: Family) -> str:
    return b"".join(exposition(families)).decode()


def test_family_has_a_header_and_a_line_per_sample() -> None:
    assert text_of(gauge("partitions", "How many.", lambda: 3)) == (
        "# HELP partitions How many.\n# TYPE partitions gauge\npartitions 3\n"
    )


def test_family_without_samples_has_only_a_header() -> None:
    text = text_of(Family(name="n", kind="gauge", doc="d", samples=list))
    assert text == "# HELP n d\n# TYPE n gauge\n"


def test_label_values_are_escaped() -> None:
    hostile = Sample(value=1, labels=(("topic", 'a"} 7\nb\\'),))
    family = Family(name="n", kind="gauge", doc="one\ntwo", samples=lambda: [hostile])
    title, kind, line, end = text_of(family).split("\n")
    assert title == r"# HELP n one\ntwo"
    assert line == r'n{topic="a\"} 7\nb\\"} 1'
    assert (kind, end) == ("# TYPE n gauge", "")


def test_long_text_is_generated_in_pieces_on_demand() -> None:
    made = []

    def samples() -> list[Sample]:
        made.append(1)
        return [Sample(value=number) for number in range(1_000)]

    pieces = exposition([Family(name="n", kind="gauge", doc="d", samples=samples)] * 2)
    assert made == []
    first = next(pieces)
    assert made == [1]
    rest = list(pieces)
    assert len(rest) > 3
    assert all(rest)
    assert b"".join([first, *rest]).count(b"\n") == 2_004


def test_values_are_read_at_each_scrape() -> None:
    numbers = iter([1, 2])
    family = counter("reads_total", "Reads.", lambda: next(numbers))
    assert text_of(family).endswith("reads_total 1\n")
    assert text_of(family).endswith("reads_total 2\n")


def values_of(text: str) -> dict[str, str]:
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")


def are_descriptors_counted() -> bool:
    told = int(values_of(text_of(*process_families()))["process_open_fds"])
    return told == len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208


def test_process_metrics() -> None:
    text = text_of(*process_families())
    values = values_of(text)
    assert float(values["process_resident_memory_bytes"]) > 1_000_000
    # Threads of other tests may open or close one in between.
    assert any(are_descriptors_counted() for _ in range(100))
    assert int(values["process_max_fds"]) > 0
    age_s = process_age_s()
    assert age_s is not None
    assert 0 <= age_s < 100_000
    again = text_of(*process_families())
    started = [line for line in text.splitlines() if line.startswith("process_start_time_seconds")]
    assert started[0] in again
