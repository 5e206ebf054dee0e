"""ACLs in ZooKeeper: Kafka 3.9's layout, and changes by other programs."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headwater.common.exceptions import ControllerFenced, CorruptFile
from headwater.metadata.changes import AclsReplaced, MetadataChange
from headwater.metadata.cluster_image import Version
from headwater.metadata_store.zookeeper.acl_znodes import read_notification
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from tests.simulation.labs.zookeeper_lab import StoreLab

ORDERS = ResourcePattern(ResourceKind.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceKind.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED)
ALICE = AclEntry("User:alice", "*", Operation.IDEMPOTENT_WRITE, Permission.ALLOW)
BOB = AclEntry("User:bob", "192.0.2.1", Operation.READ, Permission.DENY)


def written(*entries: AclEntry) -> bytes:
    """As Kafka writes it."""
    named = {Operation.IDEMPOTENT_WRITE: "IdempotentWrite", Operation.READ: "Read"}
    return json.dumps(
        {
            "version": 1,
            "acls": [
                {
                    "host": entry.host,
                    "permissionType": entry.permission.name.capitalize(),
                    "operation": named[entry.operation],
                    "principal": entry.principal,
                }
                for entry in entries
            ],
        }
    ).encode()


def follower(lab: StoreLab) -> StoreLab:
    other = StoreLab(1, lab.server)
    other.found()
    other.told()
    return other


def test_acls_are_stored_where_kafka_expects_them() -> None:
    lab = StoreLab()
    image = lab.lead()
    lab.write(
        image.version,
        AclsReplaced(ORDERS, AclSet((ALICE,))),
        AclsReplaced(PREFIX, AclSet((BOB,))),
    )
    lab.server.run()
    assert json.loads(lab.server.data("/kafka-acl/Topic/orders")) == json.loads(written(ALICE))
    path = "/kafka-acl-extended/prefixed/TransactionalId/pay-"
    assert json.loads(lab.server.data(path)) == json.loads(written(BOB))
    (note,) = lab.server.children("/kafka-acl-changes")
    assert note.startswith("acl_changes_")
    assert lab.server.data(f"/kafka-acl-changes/{note}") == b"TOPIC:orders"
    (note,) = lab.server.children("/kafka-acl-extended-changes")
    assert json.loads(lab.server.data(f"/kafka-acl-extended-changes/{note}")) == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "pay-",
        "patternType": "PREFIXED",
    }


def test_every_broker_gets_acl_changes() -> None:
    lab = StoreLab()
    image = lab.lead()
    other = follower(lab)
    changes: list[MetadataChange] = [
        AclsReplaced(ORDERS, AclSet((ALICE,), 0)),
        AclsReplaced(ORDERS, AclSet((ALICE, BOB), 1)),
        AclsReplaced(ORDERS, AclSet((BOB,), 2)),
    ]
    version = image.version
    for change in changes:
        version = _write(lab, version, change)
        assert other.told() == [change]
    _write(lab, version, AclsReplaced(ORDERS, AclSet((), 3)))
    assert other.told() == [AclsReplaced(ORDERS, AclSet(()))]
    assert "/kafka-acl/Topic/orders" not in lab.server.nodes


def test_acls_written_by_kafka_are_read_with_their_znode_version() -> None:
    lab = StoreLab()
    lab.found()
    lab.server.put("/kafka-acl/Topic/orders", written(BOB, ALICE))
    lab.server.put("/kafka-acl/Topic/orders", written(BOB, ALICE))
    lab.server.put("/kafka-acl-extended/prefixed/TransactionalId/pay-", written(BOB))
    lab.server.put("/kafka-acl/Topic/empty", b"")
    expected = {ORDERS: AclSet((ALICE, BOB), 1), PREFIX: AclSet((BOB,), 0)}
    other = StoreLab(1, lab.server)
    found: list[MetadataChange] = []
    other.store.read_configs(then=found.extend)
    other.found()
    assert found == [AclsReplaced(*each) for each in expected.items()]
    assert dict(StoreLab(2, lab.server).lead().acls) == expected


def test_acls_that_a_tool_writes_past_the_controller_are_reported() -> None:
    lab = StoreLab()
    lab.lead()
    other = follower(lab)
    lab.server.put("/kafka-acl/Topic/orders", written(ALICE))
    assert other.told() == []
    lab.server.put("/kafka-acl-changes/acl_changes_0000000007", b"Topic:orders")
    assert other.told() == [AclsReplaced(ORDERS, AclSet((ALICE,)))]
    assert AclsReplaced(ORDERS, AclSet((ALICE,))) in lab.told()


def test_a_change_to_acls_that_were_changed_elsewhere_is_rejected() -> None:
    """Their ACL would be lost. The controller reads again and decides again."""
    lab = StoreLab()
    image = lab.lead()
    version = _write(lab, image.version, AclsReplaced(ORDERS, AclSet((ALICE,))))
    lab.server.put("/kafka-acl/Topic/orders", written(ALICE, BOB))
    outcome = lab.write(version, AclsReplaced(ORDERS, AclSet((), 1)))
    lab.server.run()
    outcome.of(ControllerFenced)
    assert json.loads(lab.server.data("/kafka-acl/Topic/orders")) == json.loads(written(ALICE, BOB))


def test_a_new_session_reports_only_acls_that_changed_meanwhile() -> None:
    lab = StoreLab()
    image = lab.lead()
    version = _write(lab, image.version, AclsReplaced(ORDERS, AclSet((ALICE,))))
    version = _write(lab, version, AclsReplaced(PREFIX, AclSet((ALICE,))))
    other = follower(lab)
    other.zk_client.expire()
    _write(lab, version, AclsReplaced(ORDERS, AclSet((), 1)))
    other.zk_client.connect()
    assert other.told() == [AclsReplaced(ORDERS, AclSet(()))]


def test_unreadable_acls_keep_a_broker_from_starting() -> None:
    """A starting broker gets no ACLs until they are repaired."""
    lab = StoreLab()
    lab.found()
    lab.server.put("/kafka-acl/Topic/orders", b"no JSON")
    other = StoreLab(1, lab.server)
    found: list[MetadataChange] = []
    other.store.read_configs(then=found.extend)
    other.found()
    assert found == []
    lab.server.put("/kafka-acl/Topic/orders", written(ALICE))
    lab.server.put("/kafka-acl-changes/acl_changes_0000000001", b"TOPIC:orders")
    lab.server.run()
    assert found == [AclsReplaced(ORDERS, AclSet((ALICE,), 1))]


def test_an_unreadable_notification_does_not_block_others() -> None:
    lab = StoreLab()
    lab.lead()
    other = follower(lab)
    lab.server.put("/kafka-acl/Topic/orders", written(ALICE))
    lab.server.put("/kafka-acl-changes/acl_changes_0000000001", b"\xff")
    lab.server.put("/kafka-acl-changes/acl_changes_0000000002", b"TOPIC:orders")
    assert other.told() == [AclsReplaced(ORDERS, AclSet((ALICE,)))]


@pytest.mark.parametrize(
    "note",
    [b"", b"orders", b"Topic:", b"Thing:orders", b"Any:orders", b'{"version": 1}', b"\xff", b"{}"],
)
def test_a_notification_names_a_pattern(note: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_notification(note)


def test_notifications_may_be_spelled_like_kafkas_or_like_the_paths() -> None:
    expected = ResourcePattern(ResourceKind.TRANSACTIONAL_ID, "a:b")
    assert read_notification(b"TRANSACTIONAL_ID:a:b") == expected
    assert read_notification(b"TransactionalId:a:b") == expected


def test_the_next_controller_removes_old_acl_notifications() -> None:
    lab = StoreLab()
    image = lab.lead()
    _write(lab, image.version, AclsReplaced(PREFIX, AclSet((ALICE,))))
    lab.clock.move(16 * 60 * 1_000)
    lab.store.resign()
    lab.server.run()
    lab.elect()
    assert lab.server.children("/kafka-acl-extended-changes") == []


def _write(lab: StoreLab, fence: Version, change: MetadataChange) -> Version:
    outcome = lab.write(fence, change)
    lab.server.run()
    return outcome.of(Version)


def test_a_change_during_a_complete_read_is_not_overwritten_by_older_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a revoked permission would be back until the next change."""
    lab = StoreLab()
    image = lab.lead()
    slow = ResourcePattern(ResourceKind.GROUP, "slow")
    version = _write(lab, image.version, AclsReplaced(ORDERS, AclSet((ALICE,))))
    version = _write(lab, version, AclsReplaced(slow, AclSet((ALICE,))))
    other = follower(lab)
    other.zk_client.expire()
    ask = other.zk_client.get
    held: list[Callable[[], None]] = []

    def get(path: str, **callbacks: Any) -> None:
        if path == "/kafka-acl/Group/slow":
            held.append(partial(ask, path, **callbacks))
        else:
            ask(path, **callbacks)

    monkeypatch.setattr(type(other.zk_client), "get", lambda _, path, **how: get(path, **how))
    other.zk_client.connect()
    assert other.told() == []
    _write(lab, version, AclsReplaced(ORDERS, AclSet((BOB,), 1)))
    assert other.told() == []
    monkeypatch.undo()
    for answer in held:
        answer()
    assert other.told() == [AclsReplaced(ORDERS, AclSet((BOB,), 1))]
