"""Local metadata store under power cuts, and the image compared with a simple model."""

import random
from collections.abc import Callable
from pathlib import PurePath

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.controller.configuration_control import incremental_alter_configs
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.topic_changes import create_partitions, delete_topics
from headwater.controller.topic_creation import create_topics
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.ports.metadata_store import Registration
from headwater.metadata_store.standalone.standalone_store import StandaloneStore
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.storage.io.executor import InlineExecutor
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.labs.cluster_lab import ALL_RIGHTS, CLUSTER_ID, STATIC, rng, topic

DATA = PurePath("/data")

# Partitions of a topic and its retention, if set.
Model = dict[str, tuple[int, str | None]]
Request = tuple[str, str, int]

NAMES = st.sampled_from(["a", "b.c", "b_c", "d"])
REQUESTS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "grow", "retain"]), NAMES, st.integers(0, 4)),
    max_size=12,
)


def decide(request: Request) -> Callable[[ClusterImage], ControllerResult[tuple[ErrorCode, ...]]]:
    """A request as a decision whose response is its error codes."""
    verb, name, number = request

    def decided(image: ClusterImage) -> ControllerResult[tuple[ErrorCode, ...]]:
        match verb:
            case "create":
                create = CreateTopicsRequest(topics=(topic(name, number, 1),))
                made = create_topics(image, create, STATIC, rng(number))
                return ControllerResult(
                    made.changes, tuple(each.error_code for each in made.answer)
                )
            case "delete":
                delete = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),))
                gone = delete_topics(image, delete, ALL_RIGHTS)
                return ControllerResult(
                    gone.changes, tuple(each.error_code for each in gone.answer)
                )
            case "grow":
                asked = CreatePartitionsTopic(name=name, count=number, assignments=None)
                grown = create_partitions(image, CreatePartitionsRequest(topics=(asked,)), rng())
                return ControllerResult(
                    grown.changes, tuple(each.error_code for each in grown.answer)
                )
            case _:
                config = AlterableConfig(name="retention.ms", value=str(number - 2))
                resource = AlterConfigsResource(
                    resource_type=ResourceType.TOPIC, resource_name=name, configs=(config,)
                )
                alter = IncrementalAlterConfigsRequest(resources=(resource,))
                altered = incremental_alter_configs(image, alter, STATIC)
                return ControllerResult(
                    altered.changes, tuple(each.error_code for each in altered.answer)
                )

    return decided


def expected(model: Model, request: Request) -> ErrorCode:
    """The rules in the simplest form; updates the model."""
    verb, name, number = request
    if verb == "create":
        if name in model:
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if any(other.replace(".", "_") == name.replace(".", "_") for other in model):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if number == 0:
            return ErrorCode.INVALID_PARTITIONS
        model[name] = (number, None)
    elif name not in model:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif verb == "delete":
        del model[name]
    elif verb == "grow":
        if number <= model[name][0]:
            return ErrorCode.INVALID_PARTITIONS
        model[name] = (number, model[name][1])
    else:
        if number - 2 < -1:
            return ErrorCode.INVALID_CONFIG
        model[name] = (model[name][0], str(number - 2))
    return ErrorCode.NONE


def modelled(image: ClusterImage) -> Model:
    return {
        name: (
            len(each.partitions),
            image.configs_of(ResourceType.TOPIC, name).get("retention.ms"),
        )
        for name, each in image.topics.items()
    }


class Life:
    """One run of a single broker on a disk, until it stops or a power cut."""

    def __init__(self, disk: LossyDisk, executor: HeldExecutor | InlineExecutor) -> None:
        self.executor = executor
        # Compaction as often as possible, so that power cuts interrupt it too.
        self.store = StandaloneStore.open(
            disk,
            executor,
            DATA,
            cluster_id=CLUSTER_ID,
            first=(),
            smallest_compaction_bytes=1,
        )
        self.codes: list[ErrorCode] = []
        broker = Registration(node_id=NodeId(0))
        self.store.register(broker, then=lambda _: None, on_error=self._failed)
        self.store.become_controller(NodeId(0), then=lambda _: None, on_error=self._failed)
        self.finish()
        self.store.read(then=self._began, on_error=self._failed)

    def submit(self, request: Request) -> None:
        self.controller.submit(decide(request), then=self._answered, on_error=self._failed)

    def finish(self) -> None:
        if isinstance(self.executor, HeldExecutor):
            self.executor.finish()

    def _began(self, image: ClusterImage) -> None:
        self.controller = DeferredEventQueue(self.store, image, lambda _image, _changes: None)

    def _answered(self, codes: tuple[ErrorCode, ...]) -> None:
        self.codes += codes

    def _failed(self, error: HeadwaterError) -> None:
        raise AssertionError(f"nothing fails on a sound disk: {error}")


def fresh_disk(seed: int) -> LossyDisk:
    disk = LossyDisk(random.Random(seed))
    disk.make_directory(DATA)
    disk.sync_directory(PurePath("/"))
    return disk


@given(requests=REQUESTS)
@settings(max_examples=60, deadline=None)
def test_requests_match_a_simple_model_and_survive_a_restart(
    requests: list[Request],
) -> None:
    disk = fresh_disk(1)
    life = Life(disk, InlineExecutor())
    model: Model = {}
    for request in requests:
        code = expected(model, request)
        life.submit(request)
        assert life.codes[-1] is code
        assert modelled(life.controller.image) == model
    image = life.controller.image
    life.store.close()
    again = Life(disk, InlineExecutor()).controller.image
    assert (again.topics, again.configs) == (image.topics, image.configs)
    assert again.names_by_id == image.names_by_id
    assert again.names_by_colliding_key == image.names_by_colliding_key


# Long enough for the file to be replaced several times.
MANY_REQUESTS: list[Request] = [
    (verb, name, number)
    for number in (1, 3, 4)
    for verb in ("create", "grow", "retain", "delete" if number < 4 else "create")
    for name in ("a", "b.c")
]


@given(requests=REQUESTS, seed=st.integers(0, 2**32))
@example(requests=MANY_REQUESTS, seed=1)
@example(requests=MANY_REQUESTS, seed=2**32 // 3)
@settings(max_examples=20, deadline=None)
def test_power_cut_at_any_step_loses_nothing_acknowledged_and_leaves_no_partial_change(
    requests: list[Request], seed: int
) -> None:
    states: list[Model] = [{}]
    for request in requests:
        model = dict(states[-1])
        expected(model, request)
        states.append(model)
    step = 1
    while True:
        disk = fresh_disk(seed + step)
        disk.crash_at_step(disk.step_count + step)
        executor = HeldExecutor(random.Random(seed + step))
        answered = 0
        try:
            life = Life(disk, executor)
            for index, request in enumerate(requests):
                life.submit(request)
                for _ in range((seed >> index) % 3):
                    executor.step()
                answered = len(life.codes)
            while executor.step():
                answered = len(life.codes)
        except PowerCut:
            disk.power_cut()
        else:
            return
        second = Life(disk, InlineExecutor())
        assert modelled(second.controller.image) in states[answered:]
        second.submit(("create", "z", 1))
        disk.power_cut()
        assert "z" in Life(disk, InlineExecutor()).controller.image.topics
        step += 1
