"""Formatting of log directories, on a disk that loses what was not synced."""

import random
from pathlib import PurePath

import pytest

from headwater.common.exceptions import InvalidSetting, StorageError, WrongLogDirectory
from headwater.metadata.metadata_record_serde import decode_record
from headwater.metadata.metadata_records import FeatureLevelRecord
from headwater.metadata_store.raft.metadata_version import feature_levels, level_of_release
from headwater.metadata_store.raft.storage_formatter import (
    FormatRequest,
    InitialController,
    format_storage,
    random_uuid,
)
from headwater.raft.control_records import KRaftVersionRecord, VotersRecord, read_control_records
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_header import read_header
from headwater.records.record_reader import read_records
from headwater.storage.io.disk import read_whole
from headwater.storage.log_manager import meta_properties
from tests.simulation.fakes.lossy_disk import LossyDisk, PowerCut
from tests.simulation.fakes.seeded_random import SeededRandom

FIRST, SECOND = PurePath("/data/first"), PurePath("/data/second")
CHECKPOINT = FIRST / "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
CONTROLLERS = tuple(
    InitialController.parse(each)
    for each in (
        "1@one:9093:JEXY6aqzQY-32P5TStzaFg",
        "2@two:9094:MvDxzVmcRsaTz33bUuRU6A",
    )
)


def a_request(**changes: object) -> FormatRequest:
    values: dict[str, object] = {
        "node_id": 1,
        "cluster_id": "a-cluster",
        "directories": (FIRST, SECOND),
        "metadata_directory": FIRST,
        "features": feature_levels(None, {}),
        "controller_listener": "CONTROLLER",
        **changes,
    }
    return FormatRequest(**values)  # type: ignore[arg-type]


def run(disk: LossyDisk, request: FormatRequest) -> list[str]:
    return format_storage(
        request, disk=disk, random=SeededRandom(random.Random(1)), now_ms=1_700_000_000_000
    )


def features_in(content: bytes) -> dict[str, int]:
    found = {}
    position = 0
    while position < len(content):
        header = read_header(content, position)
        if not header.is_control:
            for each in read_records(content, header, position):
                assert each.value is not None
                message = decode_record(each.value).message
                assert isinstance(message, FeatureLevelRecord)
                found[message.name] = message.feature_level
        position += header.size_bytes
    return found


def test_every_directory_gets_its_own_id_and_the_bootstrap_records() -> None:
    disk = LossyDisk(random.Random(1))
    assert run(disk, a_request()) == [
        "Formatting metadata directory /data/first with metadata.version 4.1-IV1.",
        "Formatting data directory /data/second with metadata.version 4.1-IV1.",
    ]
    metas = [meta_properties.load(disk, each) for each in (FIRST, SECOND)]
    assert all(each is not None and each.node_id == 1 for each in metas)
    assert metas[0] != metas[1]
    for directory in (FIRST, SECOND):
        content = read_whole(disk, directory / "bootstrap.checkpoint")
        assert content is not None
        assert features_in(content) == {
            "metadata.version": 27,
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "transaction.version": 2,
        }
    assert disk.status(CHECKPOINT) is None


def test_initial_controllers_become_the_voters_of_kraft_version_1() -> None:
    disk = LossyDisk(random.Random(1))
    run(disk, a_request(initial_controllers=CONTROLLERS))
    content = read_whole(disk, CHECKPOINT)
    assert content is not None
    messages = [each.message for each in read_control_records(content)]
    (version,) = [each for each in messages if isinstance(each, KRaftVersionRecord)]
    (voters,) = [each for each in messages if isinstance(each, VotersRecord)]
    assert version.k_raft_version == 1
    assert VoterSet.from_record(voters) == VoterSet.of(
        VoterNode(
            key=ReplicaKey(each.node_id, each.directory_id),
            endpoints=(Endpoint("CONTROLLER", each.host, each.port),),
        )
        for each in CONTROLLERS
    )
    meta = meta_properties.load(disk, FIRST)
    assert meta is not None
    assert meta.directory_id == "JEXY6aqzQY-32P5TStzaFg"


def test_formatted_directories_are_refused_or_skipped() -> None:
    disk = LossyDisk(random.Random(1))
    run(disk, a_request(directories=(FIRST,)))
    with pytest.raises(StorageError, match="already formatted"):
        run(disk, a_request())
    assert meta_properties.load(disk, SECOND) is None
    assert run(disk, a_request(ignores_formatted=True)) == [
        "Formatting data directory /data/second with metadata.version 4.1-IV1."
    ]
    assert run(disk, a_request(ignores_formatted=True)) == [
        "All of the log directories are already formatted."
    ]
    with pytest.raises(WrongLogDirectory):
        run(disk, a_request(ignores_formatted=True, cluster_id="another"))


def test_a_directory_with_meta_properties_is_complete_after_a_power_cut() -> None:
    for step in range(1, 200):
        disk = LossyDisk(random.Random(step))
        disk.crash_at_step(step)
        try:
            run(disk, a_request(standalone=("one", 9093)))
        except PowerCut:
            disk.power_cut()
        else:
            return
        if meta_properties.load(disk, FIRST) is not None:
            assert read_whole(disk, CHECKPOINT)
            assert features_in(read_whole(disk, FIRST / "bootstrap.checkpoint") or b"")
        # A second attempt succeeds whatever the first one left.
        run(disk, a_request(standalone=("one", 9093), ignores_formatted=True))
    pytest.fail("the story has more steps than were tried")


@pytest.mark.parametrize(
    ("release", "level"), [("3.3-IV3", 7), ("3.9", 21), ("4.0", 25), ("4.1-IV0", 26), ("4.1", 27)]
)
def test_releases_have_kafkas_levels(release: str, level: int) -> None:
    assert level_of_release(release) == level
    assert feature_levels(release, {})["metadata.version"] == level


@pytest.mark.parametrize(
    ("release", "overrides"),
    [
        ("9.9", {}),
        (None, {"metadata.version": 6}),
        (None, {"no.such": 1}),
        (None, {"group.version": 2}),
        ("4.1", {"metadata.version": 27}),
    ],
)
def test_unknown_levels_are_refused(release: str | None, overrides: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting):
        feature_levels(release, overrides)


def test_a_feature_at_level_0_has_no_record() -> None:
    assert "group.version" not in feature_levels(None, {"group.version": 0})
    assert feature_levels("3.9", {}) == {"metadata.version": 21}


@pytest.mark.parametrize("text", ["", "1@one:9093", "x@one:9093:JEXY6aqzQY-32P5TStzaFg", "1@one"])
def test_malformed_initial_controllers_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting):
        InitialController.parse(text)


def test_random_ids_are_type_4_and_start_with_no_dash() -> None:
    rand = SeededRandom(random.Random(7))
    ids = [random_uuid(rand) for _ in range(300)]
    assert len(set(ids)) == 300
    assert all(each[6] >> 4 == 4 and not str(each).startswith("-") for each in ids)
