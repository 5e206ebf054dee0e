"""Caching, super users and log lines of the ACL authorizer."""

import logging

import pytest

from headwater.common.principal import BROKER_PRINCIPAL, Principal, Requester
from headwater.security.authorization import acl_authorizer as module
from headwater.security.authorization.acl_authorizer import AclAuthorizer
from headwater.security.authorization.acl_bindings import AclEntry, Permission, ResourcePattern
from headwater.security.authorization.authorizer import (
    CLUSTER,
    Operation,
    Resource,
    ResourceKind,
    operations_allowed,
)
from headwater.security.authorization.denial_log import LINES_MAX

ALICE = Requester(Principal("User", "alice"), "192.0.2.1")
ORDERS = Resource(ResourceKind.TOPIC, "orders")
ON_ORDERS = ResourcePattern(ResourceKind.TOPIC, "orders")


def rule(permission: Permission, operation: Operation) -> AclEntry:
    return AclEntry("User:alice", "*", operation, permission)


READING = rule(Permission.ALLOW, Operation.READ)


def test_cached_result_is_dropped_when_acls_change() -> None:
    rights = AclAuthorizer()
    assert not rights.authorize(ALICE, Operation.READ, ORDERS)
    rights.replace(ON_ORDERS, (READING,))
    assert rights.authorize(ALICE, Operation.READ, ORDERS)
    assert rights.authorize(ALICE, Operation.READ, ORDERS)
    rights.replace(ON_ORDERS, ())
    assert not rights.authorize(ALICE, Operation.READ, ORDERS)
    assert not rights.authorize_any(ALICE, Operation.READ, ResourceKind.TOPIC)


def test_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_ENTRIES_MAX", 3)
    rights = AclAuthorizer()
    rights.replace(ON_ORDERS, (READING,))
    for number in range(10):
        assert not rights.allows(ALICE, Operation.READ, Resource(ResourceKind.TOPIC, f"{number}"))
        assert rights.allows(ALICE, Operation.READ, ORDERS)
        assert len(rights._cache) <= 3


def test_long_resource_names_are_neither_cached_nor_logged_in_full(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headwater.authorizer")
    rights = AclAuthorizer(super_users=["User:admin"])
    rights.replace(ResourcePattern(ResourceKind.TOPIC, "*"), (READING,))
    endless = Resource(ResourceKind.TOPIC, "x" * 1_000_000)
    assert rights.authorize(ALICE, Operation.READ, endless)
    assert not rights.authorize(ALICE, Operation.WRITE, endless)
    assert rights.allows(Requester(Principal("User", "admin"), "h"), Operation.WRITE, endless)
    assert not rights._cache
    assert [len(line) < 400 for line in caplog.messages] == [True]


def test_super_user_bypasses_acls() -> None:
    """AC-1; principals may contain commas, as those of certificates do."""
    admin = Requester(Principal("User", "CN=a,OU=b"), "192.0.2.1")
    rights = AclAuthorizer(super_users=["User:CN=a,OU=b"])
    denial = AclEntry("User:*", "*", Operation.ALL, Permission.DENY)
    rights.replace(ON_ORDERS, (denial,))
    rights.replace(ResourcePattern(ResourceKind.TOPIC, "*"), (denial,))
    assert rights.authorize(admin, Operation.WRITE, ORDERS)
    assert rights.authorize_any(admin, Operation.WRITE, ResourceKind.TOPIC)
    assert not rights.authorize(ALICE, Operation.WRITE, ORDERS)


def test_broker_s_own_requests_bypass_acls() -> None:
    rights = AclAuthorizer()
    assert rights.authorize(
        Requester(BROKER_PRINCIPAL, "127.0.0.1"), Operation.CLUSTER_ACTION, CLUSTER
    )


def test_denial_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headwater.authorizer")
    rights = AclAuthorizer()
    rights.replace(ON_ORDERS, (READING, rule(Permission.DENY, Operation.WRITE)))
    rights.authorize(ALICE, Operation.READ, ORDERS)
    assert not caplog.messages
    rights.authorize(ALICE, Operation.WRITE, ORDERS)
    rights.authorize(ALICE, Operation.ALTER, CLUSTER)
    rights.authorize_any(ALICE, Operation.WRITE, ResourceKind.TOPIC)
    assert caplog.messages == [
        "Authorization denied: principal=User:alice host=192.0.2.1 operation=WRITE "
        "resource=Topic:orders acl=DENY WRITE to User:alice on Topic:LITERAL:orders",
        "Authorization denied: principal=User:alice host=192.0.2.1 operation=ALTER "
        "resource=Cluster:kafka-cluster",
        "Authorization denied: principal=User:alice host=192.0.2.1 operation=WRITE "
        "resource=any Topic",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_allowed_operation_is_logged_at_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "headwater.authorizer")
    rights = AclAuthorizer()
    rights.replace(ON_ORDERS, (READING,))
    for _ in range(2):
        rights.authorize(ALICE, Operation.DESCRIBE, ORDERS)
    assert caplog.messages == 2 * [
        "Authorization allowed: principal=User:alice host=192.0.2.1 operation=DESCRIBE "
        "resource=Topic:orders acl=ALLOW READ to User:alice on Topic:LITERAL:orders"
    ]


def test_authorized_operations_are_computed_without_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """AC-6: the bit field has exactly the authorized operations, including implied ones."""
    caplog.set_level(logging.DEBUG, "headwater.authorizer")
    rights = AclAuthorizer()
    rights.replace(ON_ORDERS, (READING, rule(Permission.ALLOW, Operation.ALTER_CONFIGS)))
    expected = sum(
        1 << each
        for each in (
            Operation.READ,
            Operation.DESCRIBE,
            Operation.ALTER_CONFIGS,
            Operation.DESCRIBE_CONFIGS,
        )
    )
    assert operations_allowed(rights, ALICE, ORDERS) == expected
    assert not caplog.messages


def test_repeated_denials_are_summarized(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One request names 30,000 topics, and each of them is denied."""
    caplog.set_level(logging.INFO, "headwater.authorizer")
    rights = AclAuthorizer()
    for number in range(30_000):
        topic = Resource(ResourceKind.TOPIC, f"t{number}")
        assert not rights.authorize(ALICE, Operation.DESCRIBE, topic)
    assert not rights.authorize(ALICE, Operation.READ, ORDERS)
    assert len(caplog.messages) == LINES_MAX + 1
    caplog.clear()
    rights.log_omitted_denials()
    assert caplog.messages == [
        "Authorization denied: principal=User:alice host=192.0.2.1 operation=DESCRIBE "
        "resource=Topic more_resources=29990"
    ]
    caplog.clear()
    rights.log_omitted_denials()
    assert not caplog.messages
    assert not rights.authorize(ALICE, Operation.DESCRIBE, ORDERS)
    assert len(caplog.messages) == 1


def test_denials_of_authorize_any_are_summarized_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headwater.authorizer")
    rights = AclAuthorizer()
    for _ in range(100):
        assert not rights.authorize_any(ALICE, Operation.WRITE, ResourceKind.TOPIC)
    assert len(caplog.messages) == LINES_MAX
