"""Metrics as text, in the exposition format that Prometheus reads.

Written by hand: the format is a few lines, and the library for it would cost a broker more to
import than all of this. What a reader would get wrong: the text is made piece by piece while it is
sent, and the broker works on in between. So whoever gives samples must hold no iterator over
something that changes; a list made when the family's turn comes is enough.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# What is made in one turn of the loop: about a millisecond's work.
_LINES_PER_PIECE = 400

Labels = tuple[tuple[str, str], ...]
Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line: what is special about it, and how much it is."""

    value: Number
    labels: Labels = ()
    # Of a histogram: `_bucket`, `_sum` or `_count`.
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Everything of one name. `samples` is called at each scrape, and only then."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    doc: str
    samples: Callable[[], Iterable[Sample]]


def gauge(name: str, doc: str, read: Callable[[], Number]) -> Family:
    """A family of one number that goes up and down."""
    return Family(name=name, kind="gauge", doc=doc, samples=lambda: [Sample(value=read())])


def counter(name: str, doc: str, read: Callable[[], Number]) -> Family:
    """A family of one number that only grows."""
    return Family(name=name, kind="counter", doc=doc, samples=lambda: [Sample(value=read())])


def exposition(families: Sequence[Family]) -> Iterator[bytes]:
    """The whole text in pieces, none of them empty."""
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
