"""Incremental fetches (KIP-227): a broker remembers what we read, we tell it only what changed.

One session per node. What a reader would get wrong: the broker moves partitions with data to the
end of its list, so that all get their turn; here only what was said last is remembered, to find out
what changed since. After any error the next request is a full one, in a new session.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
NEWEST_WITHOUT_IDS: Final = 12
"""The last version of Fetch that names topics; later ones have ids only."""


class FetchPosition(NamedTuple):
    """What to ask about one partition."""

    topic_id: TopicId
    partition: FetchPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The part of a Fetch that a session decides."""

    session_id: int
    epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...]
    uses_ids: bool
    """Whether every topic has an id; else no version above `NEWEST_WITHOUT_IDS` will do."""


class FetchSessionHandler:
    """What one broker was told."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._told: dict[TopicPartition, FetchPosition] = {}
        self._used_ids = True

    def request(self, wanted: dict[TopicPartition, FetchPosition]) -> SessionRequest:
        """The next request, which asks for exactly these partitions. None may be in flight."""
        uses_ids = all(each.topic_id != NO_TOPIC_ID for each in wanted.values())
        if self._epoch == _FIRST_EPOCH or uses_ids != self._used_ids:
            # A session is either of names or of ids, and a full request begins a new one.
            self._told, self._used_ids = dict(wanted), uses_ids
            self._epoch = _FIRST_EPOCH
            return SessionRequest(
                session_id=self._session_id,
                epoch=_FIRST_EPOCH,
                topics=_by_topic(wanted),
                forgotten=(),
                uses_ids=uses_ids,
            )
        replaced = {
            each
            for each, told in self._told.items()
            if each in wanted and told.topic_id != wanted[each].topic_id
        }
        changed = {each: ask for each, ask in wanted.items() if self._told.get(each) != ask}
        gone = {
            each: told
            for each, told in self._told.items()
            if each not in wanted or each in replaced
        }
        self._told = dict(wanted)
        return SessionRequest(
            session_id=self._session_id,
            epoch=self._epoch,
            topics=_by_topic(changed),
            forgotten=_forgotten(gone),
            uses_ids=uses_ids,
        )

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """An answer came; its session goes on, or the broker keeps none."""
        if error is not ErrorCode.NONE:
            # An unknown id cannot be closed; with a wrong epoch the old session may be replaced.
            keeps_id = error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
            self._begin_anew(self._session_id if keeps_id else NO_SESSION)
        elif session_id == NO_SESSION:
            self._begin_anew(NO_SESSION)
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def failed(self) -> None:
        """No answer: whether the broker took the request is unknown."""
        self._begin_anew(self._session_id)

    def closing(self) -> SessionRequest | None:
        """A last request that frees the broker's memory of us, if it has any."""
        if self._session_id == NO_SESSION:
            return None
        session_id = self._session_id
        self._begin_anew(NO_SESSION)
        return SessionRequest(
            session_id=session_id, epoch=_FINAL_EPOCH, topics=(), forgotten=(), uses_ids=True
        )

    def _begin_anew(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = _FIRST_EPOCH
        self._told = {}


def _by_topic(wanted: dict[TopicPartition, FetchPosition]) -> tuple[FetchTopic, ...]:
    topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
    for (topic, _), ask in wanted.items():
        topics.setdefault((topic, ask.topic_id), []).append(ask.partition)
    return tuple(
        FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in topics.items()
    )


def _forgotten(gone: dict[TopicPartition, FetchPosition]) -> tuple[ForgottenTopic, ...]:
    topics: dict[tuple[str, TopicId], list[int]] = {}
    for (topic, partition), told in gone.items():
        topics.setdefault((topic, told.topic_id), []).append(partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in topics.items()
    )
