"""Fetch: contents, limits and sessions."""

from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from headwater.protocol.messages.produce import ProduceResponse
from tests.peers.lab import Lab
from tests.peers.scenarios.produce import BY_NAME, produce


def _fill(lab: Lab, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        request = produce(topic, lab.batch(value), partition=partition)
        answer = lab.get(request, ProduceResponse, BY_NAME)
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.NONE


def _fetch(
    topic: str,
    *partitions: FetchPartition,
    topic_id: TopicId = NO_TOPIC_ID,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 1 << 22,
    isolation_level: int = 0,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions),),
    )


def _at(
    offset: int, partition: int = 0, max_bytes: int = 1 << 20, epoch: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
    )


def every_version(lab: Lab) -> None:
    topic = lab.topic()
    topic_id = lab.topic_id(topic)
    _fill(lab, topic, "a")
    for version in range(4, 19):
        lab.show(f"version {version}", _fetch(topic, _at(0), topic_id=topic_id), version)
        request = _fetch(topic, _at(9), topic_id=topic_id)
        lab.show(f"out of range in version {version}", request, version)


def places(lab: Lab) -> None:
    topic = lab.topic()
    _fill(lab, topic, "a", "b")
    lab.get(produce(topic, lab.batch("c", "d", "e")), ProduceResponse, BY_NAME)
    for offset in (-1, 0, 1, 2, 3, 4, 5, 6, 1 << 40):
        lab.show(f"from {offset}", _fetch(topic, _at(offset)), BY_NAME)
    lab.show("committed", _fetch(topic, _at(2), isolation_level=1), BY_NAME)
    lab.show("committed, at the end", _fetch(topic, _at(5), isolation_level=1), BY_NAME)
    lab.show("an isolation level that is none", _fetch(topic, _at(2), isolation_level=3), BY_NAME)


def unknown_places(lab: Lab) -> None:
    topic = lab.topic()
    topic_id = lab.topic_id(topic)
    lab.show("topic", _fetch(lab.named("nowhere"), _at(0)), BY_NAME)
    lab.show("partition", _fetch(topic, _at(0, partition=4)), BY_NAME)
    lab.show("negative partition", _fetch(topic, _at(0, partition=-4)), BY_NAME)
    lab.show("partition by id", _fetch("", _at(0, partition=4), topic_id=topic_id))
    lab.show("topic id", _fetch("", _at(0), topic_id=TopicId(bytes(range(16)))))
    lab.show("zero topic id", _fetch("", _at(0)))
    lab.show("no topics", FetchRequest())
    # What is unknown does not end the waiting: Kafka looks at what it has read, and no further.
    slow = _fetch(topic, _at(0), _at(0, partition=4), max_wait_ms=50, min_bytes=1)
    lab.show("with a good one beside", slow, BY_NAME, unordered=True)


def leader_epochs(lab: Lab) -> None:
    topic = lab.topic()
    _fill(lab, topic, "a", "b")
    topic_id = lab.topic_id(topic)
    for epoch in (0, 1, 7, -1, -2):
        lab.show(f"epoch {epoch}", _fetch(topic, _at(0, epoch=epoch)), BY_NAME)
    lab.show("epoch 7, newest version", _fetch("", _at(0, epoch=7), topic_id=topic_id))
    for last in (0, 3, -1):
        place = replace(_at(1), last_fetched_epoch=last)
        lab.show(f"last fetched epoch {last}", _fetch(topic, place), BY_NAME)
    beyond = replace(_at(9), last_fetched_epoch=0)
    lab.show("beyond the end of a known epoch", _fetch(topic, beyond), BY_NAME)


def limits(lab: Lab) -> None:
    """FT-2: the first batch is always returned whole, others only if they fit."""
    topic = lab.topic(partitions=3)
    for partition in range(3):
        _fill(lab, topic, "x" * 100, "y" * 100, partition=partition)
    for limit in (-1, 0, 1, 100, 250, 350, 500):
        places = tuple(_at(0, partition=number) for number in range(3))
        lab.show(f"at most {limit}", _fetch(topic, *places, max_bytes=limit), BY_NAME)
    for limit in (-1, 0, 1, 100, 200, 350):
        narrow = tuple(_at(0, partition=number, max_bytes=limit) for number in range(3))
        lab.show(f"at most {limit} of each", _fetch(topic, *narrow), BY_NAME)
    empty_first = (_at(2), _at(0, partition=1, max_bytes=1), _at(0, partition=2, max_bytes=1))
    lab.show("the first has nothing", _fetch(topic, *empty_first, max_bytes=10), BY_NAME)
    lab.show("twice", _fetch(topic, _at(0), _at(1)), BY_NAME)


def waiting(lab: Lab) -> None:
    topic = lab.topic()
    lab.show("an empty log", _fetch(topic, _at(0), max_wait_ms=50, min_bytes=1), BY_NAME)
    _fill(lab, topic, "a")
    lab.show("enough", _fetch(topic, _at(0), max_wait_ms=20_000, min_bytes=1), BY_NAME)
    lab.show("too little", _fetch(topic, _at(0), max_wait_ms=50, min_bytes=10_000), BY_NAME)
    lab.show("negative wait", _fetch(topic, _at(1), max_wait_ms=-5, min_bytes=1), BY_NAME)
    # A fetch that waits is answered by a produce of another connection.
    other = Lab(f"{lab.name}.other", lab.bootstrap_servers, start_ms=lab.start_ms)
    request = _fetch(topic, _at(1), max_wait_ms=20_000, min_bytes=1)
    lab.client.send(request, BY_NAME)
    _fill(other, topic, "b")
    other.client.close()
    lab.note("woken", lab.plain(lab.client.read(request, BY_NAME, lab.client.receive()), BY_NAME))


def sessions(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    _fill(lab, topic, "a")
    both = _fetch(topic, _at(0), _at(0, partition=1))
    first = lab.ask("a new session", replace(both, session_epoch=0), FetchResponse, BY_NAME)
    session = FetchRequest(session_id=first.session_id, max_bytes=1 << 22)

    def show(label: str, epoch: int, request: FetchRequest = session) -> None:
        lab.show(label, replace(request, session_epoch=epoch), BY_NAME)

    show("nothing new", 1)
    show("a wrong epoch", 7)
    show("an old epoch", 1)
    show("the next epoch", 2)
    moved = replace(_fetch(topic, _at(1)), session_id=first.session_id)
    show("a moved position", 3, moved)
    _fill(lab, topic, "b", partition=1)
    show("news of the other", 4)
    moved = replace(_fetch(topic, _at(1, partition=1)), session_id=first.session_id)
    show("and past them", 5, moved)
    forgotten = (ForgottenTopic(topic=topic, partitions=(1,)),)
    show("one forgotten", 6, replace(session, forgotten_topics_data=forgotten))
    _fill(lab, topic, "c", partition=1)
    show("no news of what is forgotten", 7)
    strange = replace(_fetch(lab.named("nowhere"), _at(0)), session_id=first.session_id)
    show("an unknown topic joins", 8, strange)
    show("and stays", 9)
    lab.show("the session ends", replace(both, session_id=first.session_id), BY_NAME)
    show("after its end", 10)
    lab.show("an unknown session", replace(session, session_id=12345, session_epoch=1), BY_NAME)
    lab.show("an epoch without a session", replace(both, session_epoch=3), BY_NAME)
    lab.show("an unknown session is ended", replace(session, session_id=4711), BY_NAME)


def sessions_by_id(lab: Lab) -> None:
    topic = lab.topic()
    topic_id = lab.topic_id(topic)
    _fill(lab, topic, "a")
    request = replace(_fetch("", _at(0), topic_id=topic_id), session_epoch=0)
    first = lab.ask("a new session", request, FetchResponse)
    session = FetchRequest(session_id=first.session_id, max_bytes=1 << 22)
    lab.show("nothing new", replace(session, session_epoch=1))
    lab.show("in a version with names", replace(session, session_epoch=2), BY_NAME)
    strange = _fetch("", _at(0), topic_id=TopicId(bytes(range(16))))
    strange = replace(strange, session_id=first.session_id)
    lab.show("an unknown id joins", replace(strange, session_epoch=2))
    # Kafka puts what it refused behind what it read.
    lab.show("and again", replace(session, session_epoch=3), unordered=True)
    again = replace(_fetch("", _at(0), topic_id=topic_id), session_id=first.session_id)
    lab.show("a session starts again", replace(again, session_epoch=0))


def as_a_replica(lab: Lab) -> None:
    """A fetch by a broker that has no replica."""
    topic = lab.topic()
    _fill(lab, topic, "a")
    lab.show("replica 5", replace(_fetch(topic, _at(0)), replica_id=5), BY_NAME)
    lab.show("replica 1", replace(_fetch(topic, _at(0)), replica_id=1), BY_NAME)
    lab.show("replica -2", replace(_fetch(topic, _at(0)), replica_id=-2), BY_NAME)
    with_rack = replace(_fetch(topic, _at(0)), rack_id="somewhere")
    lab.show("with a rack", with_rack, BY_NAME)
