"""Prometheus text exposition format.

Implemented here because the format is small and importing a library for it would cost more.

Note: the text is generated in pieces while it is sent, and the broker runs in between. So `samples`
must not iterate over collections that change; a list made at the start of each family is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headwater.common.latency_histogram import BUCKETS, LatencyHistogram, bucket_bound_ns

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Lines per iteration of the loop: about a millisecond of work.
_LINES_PER_PIECE = 400

_NS_PER_S: Final = 1_000_000_000

Labels = tuple[tuple[str, str], ...]
Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of the exposition."""

    value: Number
    labels: Labels = ()
    # For histograms: `_bucket`, `_sum` or `_count`.
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one metric. `samples` is only called at a scrape."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    doc: str
    samples: Callable[[], Iterable[Sample]]


def gauge(name: str, doc: str, read: Callable[[], Number]) -> Family:
    """Return a gauge without labels."""
    return Family(name=name, kind="gauge", doc=doc, samples=lambda: [Sample(value=read())])


def counter(name: str, doc: str, read: Callable[[], Number]) -> Family:
    """Return a counter without labels."""
    return Family(name=name, kind="counter", doc=doc, samples=lambda: [Sample(value=read())])


def histogram(name: str, doc: str, read: Callable[[], LatencyHistogram]) -> Family:
    """Return a histogram of durations without labels."""

    def samples() -> Iterable[Sample]:
        found = read()
        return histogram_samples(found.buckets, found.total_ns)

    return Family(name=name, kind="histogram", doc=doc, samples=samples)


def histogram_samples(
    buckets: Sequence[int], total_ns: int, labels: Labels = ()
) -> Iterator[Sample]:
    """Yield buckets, sum and count; `buckets` are those of a `LatencyHistogram`."""
    # Copied first, so that sum, count and buckets agree.
    counts, below = list(buckets), 0
    for index, count in enumerate(counts):
        below += count
        is_last = index == BUCKETS - 1
        bound = "+Inf" if is_last else repr(bucket_bound_ns(index) / _NS_PER_S)
        yield Sample(suffix="_bucket", value=below, labels=(*labels, ("le", bound)))
    yield Sample(suffix="_sum", value=total_ns / _NS_PER_S, labels=labels)
    yield Sample(suffix="_count", value=below, labels=labels)


def exposition(families: Sequence[Family]) -> Iterator[bytes]:
    """Yield the text in non-empty pieces."""
    lines: list[str] = []
    for line in _lines(families):
        lines.append(line)
        if len(lines) == _LINES_PER_PIECE:
            yield "".join(lines).encode()
            lines.clear()
    if lines:
        yield "".join(lines).encode()


def _lines(families: Sequence[Family]) -> Iterator[str]:
    for family in families:
        # Also without samples, so that a scrape names every metric that there may be.
        yield f"# HELP {family.name} {_escape(family.doc)}\n"
        yield f"# TYPE {family.name} {family.kind}\n"
        for sample in family.samples():
            yield f"{family.name}{sample.suffix}{_in_braces(sample.labels)} {sample.value!r}\n"


def _in_braces(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{_escape(value, quotes=True)}"' for name, value in labels]
    return "{" + ",".join(pairs) + "}"


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if quotes else escaped
