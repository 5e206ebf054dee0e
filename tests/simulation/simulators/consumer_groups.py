"""A consumer group under random faults, from one seed.

Members join, leave, crash, restart as static members, are slow, change their subscriptions; topics
are created, grow and are deleted; replies are lost, requests are repeated, appends fail, the
coordinator restarts from its log. Invariants are checked after each step, and at the end the group
must become stable.

One thing is left out on purpose, since the protocol has no defence against it: a heartbeat that is
overtaken by a later one of the same epoch. Its list of owned partitions is outdated, and its
response is not received. Kafka (4.1) relies on clients to have one heartbeat in flight. One that
arrives when its sender has reached a later epoch is simulated.
"""

import random
import re
import traceback
from dataclasses import dataclass

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
)
from headwater.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.consumer_group_validation import is_full
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.fakes.consumer_group_client import Client
from tests.simulation.labs.consumer_group_lab import GroupLab

TOPICS = ("audits", "bids", "clicks", "views")
REGEXES = ("", "", "[ab].*", ".*s")
MOST_CLIENTS = 6
DEFAULT_STEPS = 200
SETTINGS = ConsumerGroupSettings(session_timeout_ms=15_000, heartbeat_interval_ms=1_000)


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lab = GroupLab(SETTINGS, seed)
        self.clients: list[Client] = []
        self.trace: list[str] = []
        self._names = 0
        self._late: list[ConsumerGroupHeartbeatRequest] = []
        self._group_epoch = 0
        for name in TOPICS[:2]:
            self.lab.create_topic(name, 3)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            action = self.rng.choices(
                [act for act, _ in ACTIONS], [weight for _, weight in ACTIONS]
            )[0]
            self._note(action.__name__)
            action(self)
            self.check()
        self.come_to_rest()

    def _note(self, what: str) -> None:
        state = self.lab.group.state
        self.trace.append(
            f"{self.lab.now_ms} {what} epoch {state.epoch}/{state.assignment_epoch} "
            + " ".join(
                f"{each.member_id}:{each.member_epoch}:{each.state.name}:{len(each.assigned)}"
                for each in state.members.values()
            )
        )

    # Events.

    def beat(self) -> None:
        client = self._some_client()
        if client is not None:
            self.heartbeat(client, loss=self.rng.random() < 0.15)

    def heartbeat(self, client: Client, *, loss: bool = False) -> None:
        request = client.request()
        response = self._ask(request)
        if is_full(request) and self.rng.random() < 0.3:
            # A retry that crossed the response: the same request twice, and the second response.
            response = self._ask(request)
        if request.topic_partitions is None and self.rng.random() < 0.2:
            self._late.append(request)
        if response is None or loss:
            client.miss()
        else:
            client.on_response(request, response)

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
        replies = self.lab.carry_out(self.lab.decide(request))
        if not replies:
            return None
        response = replies[0].response
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def reconcile(self) -> None:
        client = self._some_client()
        if client is not None:
            client.reconcile()

    def join(self) -> None:
        if len(self._alive()) < MOST_CLIENTS:
            self._names += 1
            instance_id = None
            taken = [each.instance_id for each in self._alive()]
            if self.rng.random() < 0.4:
                instance_id = self.rng.choice(("one", "two"))
                instance_id = None if instance_id in taken else instance_id
            client = Client(f"m{self._names}", self._some_topics(), instance_id=instance_id)
            client.regex = self.rng.choice(REGEXES)
            self.clients.append(client)

    def crash(self) -> None:
        client = self._some_client()
        if client is not None:
            client.die()

    def leave(self) -> None:
        client = self._some_client()
        if client is not None:
            is_back_soon = client.instance_id is not None and self.rng.random() < 0.7
            self._ask(client.leaving(-2 if is_back_soon else -1))
            client.die()

    def resubscribe(self) -> None:
        client = self._some_client()
        if client is not None:
            client.names = self._some_topics()
            client.regex = self.rng.choice(REGEXES)

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS)
        if name not in self.lab.image.topics:
            self.lab.create_topic(name, self.rng.randint(1, 5))
        elif self.rng.random() < 0.3:
            self.lab.delete_topic(name)
        else:
            self.lab.grow_topic(name, 1)

    def pass_time(self) -> None:
        self.lab.pass_time(self.rng.choice((200, 1_000, 4_000)))

    def come_late(self) -> None:
        epochs = {member.member_id: member.member_epoch for member in self._members()}
        late = [
            each for each in self._late if 0 < each.member_epoch < epochs.get(each.member_id, 0)
        ]
        if late:
            written = len(self.lab.records)
            response = self._ask(self.rng.choice(late))
            assert response is not None
            assert response.error_code is ErrorCode.FENCED_MEMBER_EPOCH
            assert len(self.lab.records) == written

    def fail_to_write(self) -> None:
        self.lab.loses_appends = True
        self.beat()
        self.lab.pass_time(1_000)
        self.lab.loses_appends = False

    def restart(self) -> None:
        before = self.lab.group.state
        self.lab.restart(compacted=self.rng.random() < 0.5)
        assert self.lab.group.state == before

    # Invariants.

    def check(self) -> None:
        """No partition is held twice, nor read by a member that does not hold it."""
        state = self.lab.group.state
        holders = [
            (partition, member.member_id)
            for member in state.members.values()
            for partition in sorted(member.held)
        ]
        assert len(dict(holders)) == len(holders), "a partition is held twice"
        assert dict(holders) == state.owners
        for client in self._alive():
            member = state.members.get(client.member_id)
            if member is not None and not member.has_left_temporarily:
                assert client.owned <= member.held, f"{client.member_id} reads too much"
        assert state.epoch >= self._group_epoch
        assert all(each.member_epoch <= state.epoch for each in state.members.values()), (
            "a member is ahead of its group"
        )
        self._group_epoch = state.epoch

    def come_to_rest(self) -> None:
        """Without further faults, all members reach their targets in bounded time."""
        for _ in range(60):
            for client in self._alive():
                self.quiet_heartbeat(client)
                client.reconcile()
                client.reconcile()
                self.check()
            self.lab.pass_time(1_000)
        self._note("at rest")
        state = self.lab.group.state
        alive = {client.member_id: client for client in self._alive()}
        assert sorted(state.members) == sorted(alive)
        assert state.name.value in ("Stable", "Empty")
        for client in alive.values():
            member = state.members[client.member_id]
            assert client.owned == member.assigned == state.target_of(client.member_id)
            assert client.epoch == member.member_epoch == state.assignment_epoch
        assert self._owned_by_members() == self._subscribed_by_members()

    def quiet_heartbeat(self, client: Client) -> None:
        request = client.request()
        response = self._ask(request)
        assert response is not None
        client.on_response(request, response)

    def _owned_by_members(self) -> Partitions:
        return NO_PARTITIONS.union(*(each.owned for each in self._alive()))

    def _subscribed_by_members(self) -> Partitions:
        """Computed with Python's `re`, not with the code under test."""
        return frozenset(
            TopicIdPartition(topic.topic_id, partition)
            for name, topic in self.lab.image.topics.items()
            if any(
                name in each.names or (each.regex and re.fullmatch(each.regex, name))
                for each in self._alive()
            )
            for partition in range(len(topic.partitions))
        )

    def _members(self) -> list[ConsumerGroupMember]:
        return list(self.lab.group.state.members.values())

    def _alive(self) -> list[Client]:
        return [client for client in self.clients if client.is_alive]

    def _some_client(self) -> Client | None:
        alive = self._alive()
        return self.rng.choice(alive) if alive else None

    def _some_topics(self) -> tuple[str, ...]:
        return tuple(sorted(self.rng.sample(TOPICS, self.rng.randint(0, 3))))


ACTIONS = [
    (World.beat, 40),
    (World.reconcile, 30),
    (World.join, 5),
    (World.crash, 1),
    (World.leave, 2),
    (World.resubscribe, 2),
    (World.change_topics, 2),
    (World.pass_time, 12),
    (World.come_late, 2),
    (World.fail_to_write, 2),
    (World.restart, 2),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    failure: str | None


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    world = World(seed)
    failure: str | None = None
    try:
        world.run(steps)
    except Exception:  # noqa: BLE001, whatever a group raises is the finding
        failure = traceback.format_exc()
    return Outcome(seed=seed, trace=world.trace, failure=failure)
