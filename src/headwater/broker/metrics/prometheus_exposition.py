"""Prometheus text exposition format.

Implemented here because the format is small and importing a library for it would cost more.

Note: the text is generated in pieces while it is sent, and the broker runs in between. So `samples`
must not iterate over collections that change; a list made at the start of each family is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Lines per iteration of the loop: about a millisecond of work.
_LINES_PER_PIECE = 400

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
        has_title = False
        for sample in family.samples():
            if not has_title:
                yield f"# HELP {family.name} {_escape(family.doc)}\n"
                yield f"# TYPE {family.name} {family.kind}\n"
                has_title = True
            yield f"{family.name}{sample.suffix}{_in_braces(sample.labels)} {sample.value!r}\n"


def _in_braces(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{_escape(value, quotes=True)}"' for name, value in labels]
    return "{" + ",".join(pairs) + "}"


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if quotes else escaped
