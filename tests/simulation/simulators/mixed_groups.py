"""One group with consumers of both protocols, from one seed.

The group changes between both types and is mixed in between. Replies are lost, members crash,
appends fail, the coordinator restarts from its log. No two up-to-date members may own the same
partition; and when the faults are over, each partition has one live owner.
"""

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicId
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.group_metadata_manager import Machine
from headwater.coordinator.runtime.coordinator_state import CoordinatorState
from headwater.metadata.changes import TopicCreated
from headwater.metadata.cluster_image import PartitionRegistration, TopicImage
from headwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.simulation.fakes.consumer_group_client import Client
from tests.simulation.fakes.cooperative_client import CooperativeClient
from tests.simulation.labs.cluster_lab import after, lone_broker
from tests.simulation.labs.consumer_group_lab import GROUP
from tests.simulation.labs.group_lab import GroupLab

DEFAULT_STEPS: Final = 250
TOPIC: Final = "clicks"
PARTITIONS: Final = 5
MOST_CLIENTS: Final = 5
RESTING_ROUNDS: Final = 120
SETTINGS: Final = ConsumerGroupSettings(session_timeout_ms=10_000, heartbeat_interval_ms=1_000)
VERSION: Final = 1

AnyClient = Client | CooperativeClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; `failure` is None if every check held."""

    seed: int
    trace: list[str]
    downgrades: int
    upgrades: int
    failure: str | None


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        partitions = tuple(_partition() for _ in range(PARTITIONS))
        topic = TopicImage(name=TOPIC, topic_id=TopicId(b"\1" * 16), partitions=partitions)
        self.lab = GroupLab(image=after(lone_broker(), TopicCreated(topic)), consumer=SETTINGS)
        self.clients: list[AnyClient] = []
        self.trace: list[str] = []
        self.changes: dict[str, int] = {"classic": 0, "consumer": 0}
        self._type = ""
        self._names = 0

    def run(self, steps: int) -> None:
        deeds: list[tuple[Callable[[], None], int]] = [
            (self.beat, 60),
            (self.come_new, 4),
            (self.come_classic, 4),
            (self.leave, 3),
            (self.crash, 1),
            (self.pass_time, 12),
            (self.fail_to_write, 2),
            (self.restart, 2),
        ]
        for _ in range(steps):
            deed = self.rng.choices([each for each, _ in deeds], [each for _, each in deeds])[0]
            deed()
            self.note(deed.__name__)
            self.check()
        self.come_to_rest()

    # Events.

    def beat(self) -> None:
        client = self._some_client()
        if client is not None:
            self.talk(client, loses=self.rng.random() < 0.1)

    def talk(self, client: AnyClient, *, loses: bool = False) -> None:
        if isinstance(client, Client):
            self._talk_new(client, loses=loses)
        else:
            self._talk_classic(client, loses=loses)

    def _talk_new(self, client: Client, *, loses: bool) -> None:
        client.reconcile()
        request = client.request()
        (answer,) = self.lab.send(request, VERSION)
        if loses or not isinstance(answer, ConsumerGroupHeartbeatResponse):
            client.miss()
        else:
            client.on_response(request, answer)

    def _talk_classic(self, client: CooperativeClient, *, loses: bool) -> None:
        if client.waiting is None:
            client.waiting = self.lab.send(*client.next_request())
        if loses:
            client.miss()
        elif client.waiting:
            client.on_response(client.waiting[0])

    def come_new(self) -> None:
        if len(self._alive()) < MOST_CLIENTS:
            self._names += 1
            self.clients.append(Client(f"n{self._names}", (TOPIC,)))

    def come_classic(self) -> None:
        if len(self._alive()) < MOST_CLIENTS:
            self._names += 1
            self.clients.append(CooperativeClient(f"c{self._names}", TOPIC, PARTITIONS))

    def leave(self) -> None:
        client = self._some_client()
        if isinstance(client, Client):
            self.lab.send(client.leaving(-1), VERSION)
        elif client is not None and client.member_id:
            self.lab.send(*client.leaving())
        if client is not None:
            client.die()

    def crash(self) -> None:
        client = self._some_client()
        if client is not None:
            client.die()

    def pass_time(self) -> None:
        self.lab.pass_time(self.rng.choice((200, 1_000, 3_000)))

    def fail_to_write(self) -> None:
        self.lab.log.append_errors.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.rng.choice((self.beat, self.beat, self.leave, self.pass_time))()
        self.lab.log.append_errors.clear()

    def restart(self) -> None:
        self.lab.restart()
        for client in self._alive():
            if isinstance(client, CooperativeClient) and client.waiting is not None:
                client.miss()

    # Invariants.

    def check(self) -> None:
        assert self.lab.hosted.state is CoordinatorState.ACTIVE, "the shard failed"
        owners: dict[int, str] = {}
        for client in self._alive():
            for number in self._owned(client):
                assert number not in owners, f"{number} is owned by {owners[number]} too"
                owners[number] = _name(client)

    def _owned(self, client: AnyClient) -> list[int]:
        """What a member owns if its coordinator knows its current epoch."""
        machine = self.lab.shard.groups.machine(GROUP)
        if isinstance(client, Client):
            numbers = sorted(each.partition for each in client.owned)
            return numbers if _epoch(machine, client.member_id) is not None else []
        is_known = _epoch(machine, client.member_id) == client.generation
        return list(client.owned) if is_known and client.is_settled else []

    def come_to_rest(self) -> None:
        for _ in range(RESTING_ROUNDS):
            for client in self._alive():
                self.talk(client)
                self.check()
            self.lab.pass_time(500)
        self.note("at rest")
        owned = sorted(number for client in self._alive() for number in self._owned(client))
        assert owned == (list(range(PARTITIONS)) if self._alive() else [])

    def note(self, what: str) -> None:
        machine = self.lab.shard.groups.machine(GROUP)
        kind = "" if machine is None else machine.group_type.value
        if kind != self._type and kind and self._type and self._alive():
            self.changes[kind] += 1
        self._type = kind
        group = "no group" if machine is None else f"{kind} {machine.state_name}"
        clients = " ".join(f"{_name(each)}:{self._owned(each)}" for each in self._alive())
        self.trace.append(f"{self.lab.clock.now_ms()} {what}: {group} {clients}")

    def _alive(self) -> list[AnyClient]:
        return [client for client in self.clients if client.is_alive]

    def _some_client(self) -> AnyClient | None:
        alive = self._alive()
        return self.rng.choice(alive) if alive else None


def _epoch(machine: Machine | None, member_id: str) -> int | None:
    """The epoch or generation of a member in the group."""
    if isinstance(machine, ClassicGroup):
        is_member = any(each.member_id == member_id for each in machine.members)
        return machine.generation if is_member else None
    member = None if machine is None else machine.state.members.get(member_id)
    return None if member is None else member.member_epoch


def _partition() -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(NodeId(0),), isr=(NodeId(0),), leader=NodeId(0), leader_epoch=0
    )


def _name(client: AnyClient) -> str:
    return client.member_id if isinstance(client, Client) else client.name


def run(seed: int, *, steps: int = DEFAULT_STEPS) -> Outcome:
    """Run one seed."""
    world = World(seed)
    failure: str | None = None
    try:
        world.run(steps)
    except Exception:  # noqa: BLE001, whatever a group raises is the finding
        failure = traceback.format_exc()
    return Outcome(
        seed=seed,
        trace=world.trace,
        downgrades=world.changes["classic"],
        upgrades=world.changes["consumer"],
        failure=failure,
    )
