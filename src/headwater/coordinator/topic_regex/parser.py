"""Parse RE2 syntax into a tree.

Rejects what Kafka rejects (RE2 has no look-around, no back-references, no possessive or nested
repetition), and also scripts that do not occur in topic names (see `character_classes`) and
parentheses nested deeper than a hundred. Greedy or lazy, capturing or not makes no difference,
since a name matches as a whole or not at all.
"""

import string
from dataclasses import dataclass, replace
from typing import Final

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.topic_regex.character_classes import EVERYTHING, folded
from headwater.coordinator.topic_regex.escapes import read_class, read_escape
from headwater.coordinator.topic_regex.scanner import Scanner
from headwater.coordinator.topic_regex.syntax_tree import (
    At,
    Choice,
    Edge,
    Node,
    OneOf,
    Repeat,
    Sequence,
)

_MOST_REPEATS: Final = 1000
_DEEPEST: Final = 100
_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "_")
_EDGES: Final = {"A": Edge.BEGIN, "z": Edge.END, "b": Edge.WORD_EDGE, "B": Edge.NO_WORD_EDGE}


def parse(regex: str) -> Node:
    """Return the tree of a regular expression. Raises `InvalidPattern`."""
    parser = _Parser(Scanner(regex))
    node = parser.choice(_Flags(), depth=0)
    if not parser.scanner.at_end:
        raise InvalidPattern("unmatched closing parenthesis")
    return node


@dataclass(frozen=True, slots=True)
class _Flags:
    """`m`, `s` and `U` have no effect on single-line names that match as a whole."""

    ignores_case: bool = False


class _Parser:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self._names: dict[str, None] = {}

    def choice(self, flags: _Flags, depth: int) -> Node:
        """Parse up to the closing parenthesis or the end; flags apply up to there."""
        if depth > _DEEPEST:
            raise InvalidPattern("too many nested parentheses")
        scan = self.scanner
        alternatives: list[Node] = []
        items: list[Node] = []
        can_repeat = False
        while not scan.at_end and scan.peek() != ")":
            if scan.skip("|"):
                alternatives.append(Sequence(tuple(items)))
                items, can_repeat = [], False
                continue
            repeat = self._repeat()
            if repeat is not None:
                if not can_repeat:
                    raise InvalidPattern("repetition without an operand, or of a repetition")
                items[-1] = Repeat(items[-1], *repeat)
                can_repeat = False
                continue
            changed = self._flags_alone(flags)
            if changed is not None:
                flags, can_repeat = changed, False
                continue
            added = self._items(flags, depth)
            items += added
            can_repeat = bool(items) and (bool(added) or can_repeat)
        alternatives.append(Sequence(tuple(items)))
        return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))

    def _repeat(self) -> tuple[int, int | None] | None:
        scan = self.scanner
        if scan.skip("*"):
            found: tuple[int, int | None] = 0, None
        elif scan.skip("+"):
            found = 1, None
        elif scan.skip("?"):
            found = 0, 1
        else:
            counted = scan.counted_repeat()
            if counted is None:
                return None
            found = counted
        scan.skip("?")
        least, most = found
        if least > _MOST_REPEATS or (most is not None and not least <= most <= _MOST_REPEATS):
            raise InvalidPattern("invalid repeat count")
        return found

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """Parse `(?i)`: flags for what follows, not a group with flags."""
        scan = self.scanner
        place = scan.position
        if scan.skip("(?") and not scan.is_next("P<") and not scan.is_next("<"):
            changed = self._flags(flags)
            if scan.skip(")"):
                return changed
        scan.position = place
        return None

    def _flags(self, flags: _Flags) -> _Flags:
        scan = self.scanner
        value, needs_flag = True, False
        while not scan.at_end and scan.peek() not in ":)":
            flag = scan.take()
            if flag == "-" and value:
                value, needs_flag = False, True
                continue
            if flag not in "imsU":
                raise InvalidPattern("unknown syntax behind `(?`")
            needs_flag = False
            if flag == "i":
                flags = replace(flags, ignores_case=value)
        if needs_flag or scan.at_end:
            raise InvalidPattern("unknown syntax behind `(?`")
        return flags

    def _items(self, flags: _Flags, depth: int) -> list[Node]:
        """Parse the next item; quoted text (`\\Q..\\E`) is several items or none."""
        scan = self.scanner
        if scan.skip("\\Q"):
            return [_literal(each, flags) for each in scan.until("\\E", or_end=True)]
        return [self._item(flags, depth)]

    def _item(self, flags: _Flags, depth: int) -> Node:
        scan = self.scanner
        character = scan.take()
        match character:
            case "(":
                return self._group(flags, depth)
            case "[":
                return OneOf(read_class(scan, ignores_case=flags.ignores_case))
            case ".":
                return OneOf(EVERYTHING)
            case "^":
                return At(Edge.BEGIN)
            case "$":
                return At(Edge.END)
            case "\\":
                return self._escape(flags)
            case _:
                return _literal(character, flags)

    def _group(self, flags: _Flags, depth: int) -> Node:
        scan = self.scanner
        if scan.skip("?P<") or scan.skip("?<"):
            name = scan.until(">")
            if not name or not _NAME_CHARACTERS.issuperset(name) or name in self._names:
                raise InvalidPattern("invalid or duplicate group name")
            self._names[name] = None
        elif scan.skip("?"):
            flags = self._flags(flags)
            scan.skip(":")
        node = self.choice(flags, depth + 1)
        if not scan.skip(")"):
            raise InvalidPattern("missing closing parenthesis")
        return node

    def _escape(self, flags: _Flags) -> Node:
        scan = self.scanner
        edge = None if scan.at_end else _EDGES.get(scan.peek())
        if edge is not None:
            scan.take()
            return At(edge)
        characters = read_escape(scan)
        return OneOf(folded(characters) if flags.ignores_case else characters)


def _literal(character: str, flags: _Flags) -> Node:
    characters = frozenset(character)
    return OneOf(folded(characters) if flags.ignores_case else characters & EVERYTHING)
