"""Syntax tree of a regular expression, and the characters of topic names."""

import string
from dataclasses import dataclass
from enum import Enum
from typing import Final

ALPHABET: Final = string.ascii_letters + string.digits + "._-"
LONGEST_NAME: Final = 249


class Edge(Enum):
    """An assertion about a position between two characters."""

    BEGIN = "begin"
    END = "end"
    WORD_EDGE = "word edge"
    NO_WORD_EDGE = "no word edge"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these characters; only characters of topic names."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class At:
    """An assertion, without a character."""

    edge: Edge


@dataclass(frozen=True, slots=True)
class Sequence:
    """All of these in order; empty matches the empty text."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of these."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Between `lowest` and `highest` times; unlimited if `highest` is None."""

    node: "Node"
    lowest: int
    highest: int | None


Node = OneOf | At | Sequence | Choice | Repeat
