"""Match topic names against a regular expression.

The tree becomes a nondeterministic automaton, whose sets of states are cached as states of a
deterministic one as they occur, so that most characters cost one table lookup. The time for a name
grows with its length, whatever the expression. The total cost of an expression, for parsing and
matching any number of names, is limited, since clients send it and the event loop waits.

Note: an assertion such as `\\b` depends on the characters on both sides, so empty transitions are
only followed when the next character is known.
"""

from enum import Enum
from typing import Final, assert_never

from headwater.common.exceptions import InvalidPattern
from headwater.coordinator.topic_regex.character_classes import WORD_CHARACTERS
from headwater.coordinator.topic_regex.parser import parse
from headwater.coordinator.topic_regex.syntax_tree import (
    LONGEST_NAME,
    At,
    Choice,
    Edge,
    Node,
    OneOf,
    Repeat,
    Sequence,
)

LONGEST_REGEX: Final = 10_000
"""Maximum length. Kafka has no such limit, nor the two below."""

LARGEST_AUTOMATON: Final = 10_000
"""Maximum of states: enough for some five hundred names, not for `(a{100}){101}`."""

STEPS_MAX: Final = 200_000
"""Maximum of states visited for all names together: some tens of milliseconds."""

_MAX_CACHED_STEPS: Final = 20_000
_ACCEPT: Final = 0


class _Side(Enum):
    """Kind of character on one side of a position."""

    NOTHING = 0
    WORD = 1
    OTHER = 2


class TopicPattern:
    """A regular expression that must match a whole name."""

    def __init__(self, regex: str) -> None:
        """Raises `InvalidPattern` if it is invalid or too large."""
        if len(regex) > LONGEST_REGEX:
            raise InvalidPattern("the expression is too long")
        self._automaton = _Automaton()
        first = self._automaton.add(parse(regex), _ACCEPT)
        self._first = (frozenset((first,)), _Side.NOTHING)
        self._steps: dict[tuple[_Place, str], _Place] = {}
        self._ends: dict[_Place, bool] = {}

    def matches(self, name: str) -> bool:
        """Match a name. Raises `InvalidPattern` if that takes too much work."""
        place = self._first
        for character in name:
            step = self._steps.get((place, character))
            if step is None:
                step = self._step(place, character)
            if not step[0]:
                return False
            place = step
        is_end = self._ends.get(place)
        if is_end is None:
            states, before = place
            is_end = _ACCEPT in self._automaton.reach(states, before, _Side.NOTHING)
            self._ends[place] = is_end
        return is_end

    def _step(self, place: "_Place", character: str) -> "_Place":
        if len(self._steps) >= _MAX_CACHED_STEPS:
            self._steps.clear()
            self._ends.clear()
        states, before = place
        side = _Side.WORD if character in WORD_CHARACTERS else _Side.OTHER
        reached = self._automaton.reach(states, before, side)
        step = self._automaton.consume(reached, character), side
        self._steps[place, character] = step
        return step


_Place = tuple[frozenset[int], _Side]


class _Automaton:
    """States by number. Each takes a character, checks an assertion, or is empty."""

    def __init__(self) -> None:
        # State 0 accepts; it has no successors.
        self._takes: list[frozenset[str] | None] = [None]
        self._waits_for: list[Edge | None] = [None]
        self._next: list[tuple[int, ...]] = [()]
        self._work_left = STEPS_MAX

    def add(self, node: Node, then: int) -> int:
        """Return the state before `node`; `then` is the state after it."""
        match node:
            case OneOf():
                return self._state((then,), takes=node.characters)
            case At():
                return self._state((then,), waits_for=node.edge)
            case Sequence():
                for each in reversed(node.nodes):
                    then = self.add(each, then)
                return then
            case Choice():
                return self._state(tuple(self.add(each, then) for each in node.nodes))
            case Repeat():
                return self._add_repeat(node, then)
            case _:
                assert_never(node)

    def _add_repeat(self, repeat: Repeat, then: int) -> int:
        # More repetitions than the longest name has characters make no difference.
        least = min(repeat.lowest, LONGEST_NAME + 1)
        if repeat.highest is None:
            loop = self._state(())
            self._next[loop] = (self.add(repeat.node, loop), then)
            then = loop
        else:
            for _ in range(min(repeat.highest, LONGEST_NAME + 1) - least):
                then = self._state((self.add(repeat.node, then), then))
        for _ in range(least):
            then = self.add(repeat.node, then)
        return then

    def _state(
        self,
        leads_to: tuple[int, ...],
        *,
        takes: frozenset[str] | None = None,
        waits_for: Edge | None = None,
    ) -> int:
        if len(self._next) >= LARGEST_AUTOMATON:
            raise InvalidPattern("the expression is too large")
        self._takes.append(takes)
        self._waits_for.append(waits_for)
        self._next.append(leads_to)
        return len(self._next) - 1

    def reach(self, states: frozenset[int], before: _Side, behind: _Side) -> dict[int, None]:
        """Return these states and all that follow without a character."""
        reached = dict.fromkeys(sorted(states))
        waiting = list(reached)
        while waiting:
            state = waiting.pop()
            edge = self._waits_for[state]
            if self._takes[state] is None and (edge is None or _holds(edge, before, behind)):
                for each in self._next[state]:
                    if each not in reached:
                        reached[each] = None
                        waiting.append(each)
        self._work_left -= len(reached)
        if self._work_left < 0:
            raise InvalidPattern("the expression takes too much work to match")
        return reached

    def consume(self, states: dict[int, None], character: str) -> frozenset[int]:
        return frozenset(
            self._next[state][0] for state in states if character in (self._takes[state] or ())
        )


def _holds(edge: Edge, before: _Side, behind: _Side) -> bool:
    match edge:
        case Edge.BEGIN:
            return before is _Side.NOTHING
        case Edge.END:
            return behind is _Side.NOTHING
        case Edge.WORD_EDGE:
            return (before is _Side.WORD) != (behind is _Side.WORD)
        case Edge.NO_WORD_EDGE:
            return (before is _Side.WORD) == (behind is _Side.WORD)
