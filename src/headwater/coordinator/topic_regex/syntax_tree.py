"""A regular expression as a tree, and the characters that can occur in a topic's name."""

import string
from dataclasses import dataclass
from enum import Enum
from typing import Final

ALPHABET: Final = string.ascii_letters + string.digits + "._-"
LONGEST_NAME: Final = 249


class Edge(Enum):
    """Something that holds between two characters, or does not."""

    BEGIN = "begin"
    END = "end"
    WORD_EDGE = "word edge"
    NO_WORD_EDGE = "no word edge"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character out of these. Others than those of the alphabet are left out."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class At:
    """No character, but a place."""

    edge: Edge


@dataclass(frozen=True, slots=True)
class Sequence:
    """All of these, one after another; none at all is the empty text."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of these."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; without a `most`, at will."""

    node: "Node"
    least: int
    most: int | None


Node = OneOf | At | Sequence | Choice | Repeat
