"""What clients of a simulated cluster were told, and what must then be true.

Note: without a response nothing is guaranteed. Such records may exist or not, but never twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.common.ids import TopicId, TopicPartition
from tests.simulation.worlds.cluster_records import Batch
from tests.simulation.worlds.replication_checks import CheckFailed


def check(holds: bool, what: str) -> None:
    if not holds:
        raise CheckFailed(what)


@dataclass(slots=True)
class Attempt:
    """One transaction, as its producer knows it."""

    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    is_committed: bool | None = None
    """Whether it was committed, as far as the coordinator has answered."""
    is_end_asked: bool = False
    """Whether its commit was requested, with any outcome."""
    offset: int | None = None
    """The offset it commits for its group, if any."""


@dataclass(slots=True)
class Commit:
    """An offset that a member of a group has committed, or tried to."""

    offset: int
    is_acknowledged: bool = False


@dataclass(slots=True)
class Incarnation:
    """One of several topics that had the same name, one after the other."""

    number: int
    topic_id: TopicId
    places: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Values that must exist, by partition and offset, until it is deleted."""
    is_going: bool = False
    is_disconnected: bool = False

    def nothing_vanished(self, partition: int, log: Sequence[Batch], who: str) -> None:
        values = _values(log)
        for (number, offset), value in self.places.items():
            found = values.get(offset)
            check(
                number != partition or found == value,
                f"acknowledged {value!r} in incarnation {self.number} at {partition}@{offset}, "
                f"{who} has {found!r}",
            )

    def nothing_inherited(self, log: Sequence[Batch], who: str) -> None:
        """Nothing of a deleted topic of the same name is left."""
        strange = [
            value for value in _values(log).values() if not value.startswith(b"u%d." % self.number)
        ]
        check(not strange, f"{who} has {strange} in incarnation {self.number}")


@dataclass(slots=True)
class ClientGuarantees:
    """All guarantees given to clients."""

    # Values that must exist, by partition and producer, in order.
    acknowledged: dict[tuple[TopicPartition, int], list[bytes]] = field(default_factory=dict)
    sent: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    places: dict[tuple[TopicPartition, int], bytes] = field(default_factory=dict)
    seen: dict[tuple[TopicPartition, int], bytes] = field(default_factory=dict)
    # By consumer: what it considered committed.
    views: dict[int, dict[tuple[TopicPartition, int], bytes]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    # By transactional producer, whose group only it commits for, in order.
    attempts_of: dict[str, list[Attempt]] = field(default_factory=dict)
    # By group and partition, in the order of sending.
    commits: dict[tuple[str, int], list[Commit]] = field(default_factory=dict)
    # The owner of a partition under an epoch of a group.
    owners: dict[tuple[str, int, int], str] = field(default_factory=dict)
    incarnations: dict[TopicId, Incarnation] = field(default_factory=dict)

    def acknowledge(self, place: TopicPartition, producer: int, values: Sequence[bytes]) -> None:
        self.acknowledged.setdefault((place, producer), []).extend(values)

    def see(
        self, place: TopicPartition, consumer: int, position: int, batches: Sequence[Batch]
    ) -> None:
        """A consumer got these."""
        check(
            batches[0].base_offset <= position <= batches[0].last_offset,
            f"consumer {consumer} asked for {_named(place)}@{position} and got "
            f"{batches[0].base_offset}",
        )
        for batch in batches:
            for offset, value in batch.values.items():
                known = self.seen.setdefault((place, offset), value)
                check(
                    known == value,
                    f"consumer {consumer}: {_named(place)}@{offset} was seen as {known!r} "
                    f"and is {value!r}",
                )

    def see_committed(
        self, place: TopicPartition, consumer: int, values: Mapping[int, bytes]
    ) -> None:
        view = self.views.setdefault(consumer, {})
        view.update({(place, offset): value for offset, value in values.items()})

    def own(self, group: str, epoch: int, partitions: Sequence[int], member: str) -> None:
        """A member was assigned these."""
        for number in partitions:
            owner = self.owners.setdefault((group, epoch, number), member)
            check(
                owner == member,
                f"{owner} and {member} own {number} of {group}, both under epoch {epoch}",
            )

    def begin_commit(self, group: str, partition: int) -> Commit:
        sent = self.commits.setdefault((group, partition), [])
        sent.append(Commit(len(sent)))
        return sent[-1]

    def nothing_vanished(self, place: TopicPartition, log: Sequence[Batch], who: str) -> None:
        """Acknowledged and consumed records are in the leader's log."""
        values = _values(log)
        for how, known in (("acknowledged", self.places), ("seen", self.seen)):
            for (partition, offset), value in known.items():
                found = values.get(offset)
                check(
                    partition != place or found == value,
                    f"{how} {value!r} at {_named(place)}@{offset}, {who} has {found!r}",
                )

    def once_and_in_order(self, place: TopicPartition, log: Sequence[Batch]) -> None:
        """Every acknowledged value exists once, and no value exists twice."""
        values = [value for batch in log for value in batch.values.values()]
        for (partition, producer), wanted in self.acknowledged.items():
            if partition != place:
                continue
            own = [value for value in values if value.startswith(b"p%d." % producer)]
            check(own[: len(wanted)] == wanted, f"{_named(place)}: {own} and not {wanted}")
            check(len(set(own)) == len(own), f"{_named(place)}: some of {own} are there twice")

    def views_are_right(self, place: TopicPartition, committed: Mapping[int, bytes]) -> None:
        """What a read_committed consumer considered committed is so."""
        for consumer, view in self.views.items():
            for (partition, offset), value in view.items():
                check(
                    partition != place or committed.get(offset) == value,
                    f"consumer {consumer} took {value!r} at {_named(place)}@{offset} for committed",
                )

    def transactions_are_whole(self, visible: Mapping[TopicPartition, Sequence[bytes]]) -> None:
        """All of a committed transaction is visible, nothing of another one, and never a part."""
        for attempt in self.attempts:
            found = [value in visible[place] for place, value in attempt.values]
            if attempt.is_committed is True:
                check(all(found), f"a committed transaction is not seen whole: {attempt}")
            elif attempt.is_committed is False or not attempt.is_end_asked:
                check(not any(found), f"something of an aborted transaction is seen: {attempt}")
            else:
                check(all(found) or not any(found), f"half a transaction is seen: {attempt}")


def possible_offsets(attempts: Sequence[Attempt]) -> list[int]:
    """Offsets that a group may have: of its last transaction, or of one with unknown outcome."""
    possible = [-1]
    for attempt in attempts:
        if attempt.offset is None:
            continue
        if attempt.is_committed is True:
            possible = [attempt.offset]
        elif attempt.is_committed is None and attempt.is_end_asked:
            possible.append(attempt.offset)
    return possible


def possible_commits(commits: Sequence[Commit]) -> list[int]:
    """The last acknowledged commit, or one with unknown arrival."""
    acknowledged = [each.offset for each in commits if each.is_acknowledged]
    unknown = [each.offset for each in commits if not each.is_acknowledged]
    return (acknowledged[-1:] or [-1]) + unknown


def _values(log: Sequence[Batch]) -> dict[int, bytes]:
    return {offset: value for batch in log for offset, value in batch.values.items()}


def _named(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
