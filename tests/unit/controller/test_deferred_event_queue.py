"""The decision queue over the standalone store: what is answered, and when."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import PurePath

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    ControllerFenced,
    CorruptFile,
    HeadwaterError,
    StorageError,
    WrongLogDirectory,
)
from headwater.common.ids import NodeId
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.topic_creation import Results, create_topics
from headwater.metadata.changes import FeatureFinalized, MetadataChange, TopicCreated
from headwater.metadata.cluster_image import ClusterImage, Version
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.ports.metadata_store import Failed, Registration
from headwater.metadata_store.standalone.standalone_store import FILE_NAME, StandaloneStore
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.storage.io.executor import InlineExecutor
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.labs.cluster_lab import CLUSTER_ID, STATIC, rng, topic

DATA = PurePath("/data")


class Lab:
    """A standalone broker whose disk jobs run when the test says so."""

    def __init__(self, disk: LossyDisk, smallest_compaction_bytes: int = 1_000_000) -> None:
        self.disk = disk
        self.executor = HeldExecutor(random.Random(1))
        self.store = StandaloneStore.open(
            disk,
            self.executor,
            DATA,
            cluster_id=CLUSTER_ID,
            first=(),
            smallest_compaction_bytes=smallest_compaction_bytes,
        )
        self.said: list[str] = []
        self.store.register(
            Registration(node_id=NodeId(0)), then=self._epoch, on_error=self._failed
        )
        self.store.become_controller(NodeId(0), then=lambda _: None, on_error=self._failed)
        self.executor.finish()
        self.images: list[ClusterImage] = []
        self.store.read(then=self.images.append, on_error=self._failed)
        self.controller = DeferredEventQueue(self.store, self.images[0], self._on_image)

    def create(self, name: str) -> None:
        request = CreateTopicsRequest(topics=(topic(name),))

        def decide(image: ClusterImage) -> ControllerResult[Results]:
            return create_topics(image, request, STATIC, rng())

        def answered(results: Results) -> None:
            self.said.append(f"{name}: {results[0].error_code.name}")

        self.controller.submit(decide, then=answered, on_error=self._failed)

    def _epoch(self, epoch: int) -> None:
        self.broker_epoch = epoch

    def _on_image(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        assert changes
        self.said.append(f"image has {sorted(image.topics)}")

    def _failed(self, error: HeadwaterError) -> None:
        self.said.append(type(error).__name__)


@pytest.fixture
def disk() -> LossyDisk:
    disk = LossyDisk(random.Random(1))
    disk.make_directory(DATA)
    disk.sync_directory(PurePath("/"))
    return disk


def test_a_response_is_sent_when_its_changes_are_durable(disk: LossyDisk) -> None:
    lab = Lab(disk)
    lab.create("orders")
    assert lab.said == []
    assert "orders" not in lab.controller.image.topics
    lab.executor.finish()
    assert lab.said == ["image has ['orders']", "orders: NONE"]
    assert "orders" in lab.controller.image.topics


def test_an_error_that_depends_on_a_proposal_waits_for_it(disk: LossyDisk) -> None:
    """The second request must not report a topic that may never exist."""
    lab = Lab(disk)
    lab.create("orders")
    lab.create("orders")
    assert lab.said == []
    lab.executor.finish()
    assert lab.said == ["image has ['orders']", "orders: NONE", "orders: TOPIC_ALREADY_EXISTS"]


def test_changes_that_arrive_during_a_sync_share_the_next_one(disk: LossyDisk) -> None:
    lab = Lab(disk)
    lab.create("first")
    lab.executor.work()
    before = disk.step_count
    for number in range(20):
        lab.create(f"t{number}")
    assert disk.step_count == before
    lab.executor.deliver()
    assert lab.executor.waiting_count == 1
    lab.executor.finish()
    assert len(lab.controller.image.topics) == 21
    # One write, which counts as two steps, and one sync.
    assert disk.step_count - before == 3


def test_after_a_failed_sync_no_change_succeeds(disk: LossyDisk) -> None:
    lab = Lab(disk)
    disk.fail_next_sync(f"*/{FILE_NAME}")
    lab.create("orders")
    lab.executor.work()
    lab.create("later")
    lab.create("orders")
    lab.executor.finish()
    assert lab.said == ["StorageError"] * 3
    assert lab.controller.proposed == lab.controller.image == lab.images[0]
    lab.create("more")
    assert lab.said == ["StorageError"] * 4


def test_a_change_decided_on_an_old_image_is_rejected(disk: LossyDisk) -> None:
    lab = Lab(disk)
    old = lab.controller.image.version
    lab.create("orders")
    failures: list[HeadwaterError] = []
    for fence in (old, old._replace(controller_epoch=old.controller_epoch - 1)):
        lab.store.write((), fence=fence, then=lambda _: None, on_error=failures.append)
    assert [type(each) for each in failures] == [ControllerFenced] * 2
    assert failures[0].code is ErrorCode.NOT_CONTROLLER


def test_a_restart_has_larger_epochs_and_the_same_topics(disk: LossyDisk) -> None:
    first = Lab(disk)
    first.create("orders")
    first.executor.finish()
    first.store.close()
    second = Lab(disk)
    assert second.images[0].topics == first.controller.image.topics
    assert second.broker_epoch > first.broker_epoch
    assert second.controller.image.version > first.controller.image.version
    epochs = [lab.controller.image.version.controller_epoch for lab in (first, second)]
    assert epochs == [1, 2]
    assert list(second.controller.image.brokers) == [0]


def test_a_closed_store_rejects_writes_and_fails_waiting_ones(disk: LossyDisk) -> None:
    lab = Lab(disk)
    lab.create("first")
    lab.create("second")
    lab.store.close()
    assert lab.said == ["StorageError"]
    lab.executor.finish()
    assert lab.said == ["StorageError", "image has ['first']", "first: NONE"]


def test_what_a_start_has_read_is_durable(disk: LossyDisk) -> None:
    """A process may die between its write and its sync; the next one must sync it."""
    lab = Lab(disk)
    lab.create("orders")
    disk.crash_at_step(disk.step_count + 3)
    with pytest.raises(PowerCut):
        lab.executor.work()
    disk.process_crash()
    assert topics_found(disk) == ["orders"]
    disk.power_cut()
    assert topics_found(disk) == ["orders"]


def test_a_torn_end_is_truncated_at_the_next_start(disk: LossyDisk) -> None:
    open_store(disk, may_create=True).close()
    file = disk.open(DATA / FILE_NAME)
    sound = file.size()
    file.write([b"\xf5HWF\0\0\1"], sound)
    open_store(disk, may_create=False).close()
    assert file.size() == sound


def test_without_space_for_a_new_file_the_old_one_stays_in_use(disk: LossyDisk) -> None:
    lab = Lab(disk, smallest_compaction_bytes=1)
    for number in range(20):
        disk.fail_next_write(f"*/{FILE_NAME}.tmp")
        lab.create(f"t{number}")
        lab.executor.finish()
    assert len(lab.controller.image.topics) == 20
    lab.store.close()
    assert len(topics_found(disk)) == 20


class HeldStore:
    """A `ChangeWriter` whose writes end when and as the test says."""

    def __init__(self) -> None:
        self.writes: list[tuple[Callable[[], None], Failed]] = []

    def write(
        self,
        changes: Sequence[MetadataChange],  # noqa: ARG002
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        version = fence._replace(sequence=fence.sequence + 1)
        self.writes.append((partial(then, version), on_error))


def _say(said: list[str], text: str, _: object) -> None:
    said.append(text)


def held_queue(said: list[str]) -> tuple[HeldStore, DeferredEventQueue]:
    """A queue with two writes in flight."""
    store = HeldStore()
    image = ClusterImage(cluster_id=CLUSTER_ID)
    queue = DeferredEventQueue(store, image, lambda _, __: None)
    for name in ("first", "second"):
        queue.submit(
            lambda _: ControllerResult([FeatureFinalized("f", 1)], None),
            then=partial(_say, said, f"{name}: written"),
            on_error=partial(_say, said, f"{name}: failed"),
        )
    return store, queue


def test_a_write_that_succeeds_after_an_earlier_one_failed_is_ignored() -> None:
    """Its request has been answered with the earlier failure."""
    said: list[str] = []
    store, queue = held_queue(said)
    (_, fail_first), (end_second, _) = store.writes
    fail_first(ControllerFenced("x"))
    end_second()
    assert said == ["first: failed", "second: failed"]
    assert queue.proposed is queue.image


def test_the_failure_of_a_write_that_has_succeeded_fails_only_later_ones() -> None:
    said: list[str] = []
    store, queue = held_queue(said)
    (end_first, fail_first), (_, fail_second) = store.writes
    end_first()
    fail_first(ControllerFenced("x"))
    fail_second(ControllerFenced("x"))
    assert said == ["first: written", "second: failed"]
    assert queue.image.features == {"f": 1}


def topics_found(disk: LossyDisk) -> list[str]:
    found: list[ClusterImage] = []
    store = open_store(disk, may_create=False)
    store.read(then=found.append, on_error=lambda error: pytest.fail(str(error)))
    store.close()
    return sorted(found[0].topics)


def open_store(
    disk: LossyDisk, *, cluster_id: str = CLUSTER_ID, may_create: bool
) -> StandaloneStore:
    return StandaloneStore.open(
        disk, InlineExecutor(), DATA, cluster_id=cluster_id, first=() if may_create else None
    )


def test_a_missing_damaged_or_foreign_file_stops_the_start(
    disk: LossyDisk,
) -> None:
    with pytest.raises(StorageError, match="is missing"):
        open_store(disk, may_create=False)
    open_store(disk, may_create=True).close()
    with pytest.raises(WrongLogDirectory, match="is of cluster"):
        open_store(disk, cluster_id="other", may_create=True)
    disk.open(DATA / FILE_NAME).write([b"?"], 20)
    with pytest.raises(CorruptFile, match=r"cluster\.facts: the snapshot"):
        open_store(disk, may_create=True)


def test_the_file_contains_the_topic_id(disk: LossyDisk) -> None:
    lab = Lab(disk)
    lab.create("orders")
    lab.executor.finish()
    (created,) = [TopicCreated(each) for each in lab.controller.image.topics.values()]
    content = disk.open(DATA / FILE_NAME).read(10_000, 0)
    assert str(created.topic.topic_id).encode() in content
