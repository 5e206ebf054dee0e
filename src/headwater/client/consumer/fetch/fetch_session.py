"""Incremental fetch sessions (KIP-227): send a broker only changed partitions.

One session per node.

Note: the broker rotates its partitions so that each gets its turn; the client only remembers what
it sent last, to compute the difference. After any error the next request is a full one.
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
"""The last version of Fetch with topic names; later ones have ids only."""


class FetchPosition(NamedTuple):
    """The request fields of one partition."""

    topic_id: TopicId
    partition: FetchPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The fields of a Fetch request that depend on the session."""

    session_id: int
    epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...]
    uses_ids: bool
    """Whether every topic has an id; otherwise the version is at most `NEWEST_WITHOUT_IDS`."""


class FetchSessionHandler:
    """The session with one broker, as Kafka's FetchSessionHandler."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._sent: dict[TopicPartition, FetchPosition] = {}
        self._used_ids = True

    def request(self, wanted: dict[TopicPartition, FetchPosition]) -> SessionRequest:
        """The next request, for exactly these partitions. None may be in flight."""
        uses_ids = all(each.topic_id != NO_TOPIC_ID for each in wanted.values())
        if self._epoch == _FIRST_EPOCH or uses_ids != self._used_ids:
            # A session uses either names or ids; a full request starts a new one.
            self._sent, self._used_ids = dict(wanted), uses_ids
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
            for each, sent in self._sent.items()
            if each in wanted and sent.topic_id != wanted[each].topic_id
        }
        changed = {each: ask for each, ask in wanted.items() if self._sent.get(each) != ask}
        removed = {
            each: sent
            for each, sent in self._sent.items()
            if each not in wanted or each in replaced
        }
        self._sent = dict(wanted)
        return SessionRequest(
            session_id=self._session_id,
            epoch=self._epoch,
            topics=_by_topic(changed),
            forgotten=_forgotten(removed),
            uses_ids=uses_ids,
        )

    def handle_response(self, error: ErrorCode, session_id: int) -> None:
        """Handle a response: continue the session, or start over if the broker has none."""
        if error is not ErrorCode.NONE:
            # An unknown session cannot be closed; after an epoch error the id is reused.
            keeps_id = error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
            self._start_over(self._session_id if keeps_id else NO_SESSION)
        elif session_id == NO_SESSION:
            self._start_over(NO_SESSION)
        else:
            self._session_id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def handle_error(self) -> None:
        """No response arrived: whether the broker processed the request is unknown."""
        self._start_over(self._session_id)

    def closing(self) -> SessionRequest | None:
        """A last request that closes the session on the broker, if there is one."""
        if self._session_id == NO_SESSION:
            return None
        session_id = self._session_id
        self._start_over(NO_SESSION)
        return SessionRequest(
            session_id=session_id, epoch=_FINAL_EPOCH, topics=(), forgotten=(), uses_ids=True
        )

    def _start_over(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = _FIRST_EPOCH
        self._sent = {}


def _by_topic(wanted: dict[TopicPartition, FetchPosition]) -> tuple[FetchTopic, ...]:
    topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
    for (topic, _), ask in wanted.items():
        topics.setdefault((topic, ask.topic_id), []).append(ask.partition)
    return tuple(
        FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in topics.items()
    )


def _forgotten(removed: dict[TopicPartition, FetchPosition]) -> tuple[ForgottenTopic, ...]:
    topics: dict[tuple[str, TopicId], list[int]] = {}
    for (topic, partition), sent in removed.items():
        topics.setdefault((topic, sent.topic_id), []).append(partition)
    return tuple(
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=tuple(partitions))
        for (topic, topic_id), partitions in topics.items()
    )
