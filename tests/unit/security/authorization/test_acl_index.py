"""Authorization by ACLs (AC-1, AC-2, AC-3)."""

import pytest

from headwater.common.principal import ANONYMOUS, Principal, Requester
from headwater.security.authorization.acl_authorizer import AclIndex
from headwater.security.authorization.acl_bindings import (
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind

ALICE = Requester(Principal("User", "alice"), "192.0.2.1")
BOB = Requester(Principal("User", "bob"), "192.0.2.1")
ORDERS = Resource(ResourceKind.TOPIC, "orders")
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(
    permission: Permission,
    operation: Operation,
    principal: str = "User:alice",
    host: str = "*",
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def index(
    *rules: tuple[str, PatternType, AclEntry], everyone: bool = False, kind: int = 2
) -> AclIndex:
    made = AclIndex(everyone_if_no_acl=everyone)
    found: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for name, pattern_type, each in rules:
        pattern = ResourcePattern(ResourceKind(kind), name, pattern_type)
        found[pattern] = (*found.get(pattern, ()), each)
    for pattern, entries in found.items():
        made.replace(pattern, entries)
    return made


def may(
    rules: AclIndex,
    operation: Operation = Operation.READ,
    resource: Resource = ORDERS,
    who: Requester = ALICE,
) -> bool:
    return rules.authorize(who, operation, resource).is_allowed


def test_operation_without_an_allow_is_denied() -> None:
    """AC-1"""
    assert not may(index())
    assert not may(index(("orders", LITERAL, entry(ALLOW, Operation.READ))), who=BOB)


def test_resource_without_acls_is_open_if_configured() -> None:
    """AC-1: an ACL for another principal counts as an ACL of the resource."""
    rules = index(("orders", LITERAL, entry(ALLOW, Operation.READ)), everyone=True)
    assert may(rules, resource=Resource(ResourceKind.TOPIC, "payments"), who=BOB)
    assert not may(rules, who=BOB)
    assert not may(index(("ord", PREFIXED, entry(ALLOW, Operation.READ)), everyone=True), who=BOB)
    assert not may(index(("*", LITERAL, entry(ALLOW, Operation.READ)), everyone=True), who=BOB)


@pytest.mark.parametrize(
    ("name", "pattern_type", "is_about"),
    [
        ("orders", LITERAL, True),
        ("*", LITERAL, True),
        ("ord", PREFIXED, True),
        ("orders", PREFIXED, True),
        ("ord", LITERAL, False),
        ("orders-2", PREFIXED, False),
        ("*", PREFIXED, False),
        ("Orders", LITERAL, False),
    ],
)
def test_pattern_matches_literally_by_prefix_or_by_wildcard(
    name: str, pattern_type: PatternType, is_about: bool
) -> None:
    """AC-2"""
    assert may(index((name, pattern_type, entry(ALLOW, Operation.READ)))) is is_about


def test_acl_applies_to_one_resource_type() -> None:
    rules = index(("orders", LITERAL, entry(ALLOW, Operation.READ)), kind=ResourceKind.GROUP)
    assert not may(rules)
    assert may(rules, resource=Resource(ResourceKind.GROUP, "orders"))


@pytest.mark.parametrize(
    ("principal", "host", "is_meant"),
    [
        ("User:alice", "*", True),
        ("User:*", "*", True),
        ("User:alice", "192.0.2.1", True),
        ("User:*", "192.0.2.1", True),
        ("User:alice", "192.0.2.2", False),
        ("User:bob", "*", False),
        ("User:ali", "*", False),
        ("Group:*", "*", False),
        ("*", "*", False),
    ],
)
def test_acl_matches_principal_and_host_or_wildcards(
    principal: str, host: str, is_meant: bool
) -> None:
    """AC-2"""
    rules = index(("orders", LITERAL, entry(ALLOW, Operation.READ, principal, host)))
    assert may(rules) is is_meant


@pytest.mark.parametrize(
    ("written", "peer"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("fe80:0:0:0:0:0:0:1", "fe80::1%eth0"),
    ],
)
def test_host_is_matched_in_any_spelling(written: str, peer: str) -> None:
    rules = index(
        ("orders", LITERAL, entry(ALLOW, Operation.READ)),
        ("orders", LITERAL, entry(DENY, Operation.READ, host=written)),
    )
    assert not may(rules, who=ALICE._replace(host=peer))
    assert may(rules, who=ALICE._replace(host="192.0.2.9"))


def test_deny_wins_over_allow_in_any_pattern() -> None:
    """AC-1"""
    allowed = ("orders", LITERAL, entry(ALLOW, Operation.ALL))
    for name, pattern_type in (("orders", LITERAL), ("o", PREFIXED), ("*", LITERAL)):
        for principal in ("User:alice", "User:*"):
            for operation in (Operation.READ, Operation.ALL):
                denied = name, pattern_type, entry(DENY, operation, principal)
                assert not may(index(allowed, denied))
                assert not may(index(denied, allowed))
    assert may(index(allowed, ("orders", LITERAL, entry(DENY, Operation.WRITE))))


@pytest.mark.parametrize(
    ("allowed", "implied"),
    [
        (Operation.READ, {Operation.DESCRIBE}),
        (Operation.WRITE, {Operation.DESCRIBE}),
        (Operation.DELETE, {Operation.DESCRIBE}),
        (Operation.ALTER, {Operation.DESCRIBE}),
        (Operation.ALTER_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (Operation.CREATE, set()),
        (Operation.DESCRIBE, set()),
        (Operation.CLUSTER_ACTION, set()),
        (Operation.ALL, set(Operation) - {Operation.UNKNOWN, Operation.ANY}),
    ],
)
def test_allowed_operations_imply_describe(allowed: Operation, implied: set[Operation]) -> None:
    """AC-3"""
    rules = index(("orders", LITERAL, entry(ALLOW, allowed)))
    wanted = [each for each in Operation if each > Operation.ALL]
    assert {each for each in wanted if may(rules, each)} == ({allowed} | implied) & set(wanted)


def test_deny_implies_no_other_operation() -> None:
    """AC-3"""
    rules = index(
        ("orders", LITERAL, entry(ALLOW, Operation.DESCRIBE)),
        ("orders", LITERAL, entry(DENY, Operation.READ)),
    )
    assert may(rules, Operation.DESCRIBE)


def test_removed_acls_no_longer_apply() -> None:
    pattern = ResourcePattern(ResourceKind.TOPIC, "ord", PREFIXED)
    rules = AclIndex()
    for _ in range(2):
        rules.replace(pattern, (entry(ALLOW, Operation.READ),))
        rules.replace(pattern, (entry(ALLOW, Operation.READ, "User:bob"),))
        assert not may(rules)
        assert may(rules, who=BOB)
        rules.replace(pattern, ())
        assert not may(rules, who=BOB)
        assert not rules.authorize_any(BOB, Operation.READ, ResourceKind.TOPIC).is_allowed


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([("a", LITERAL, ALLOW)], True),
        ([("a", PREFIXED, ALLOW)], True),
        ([("*", LITERAL, ALLOW)], True),
        ([("a", LITERAL, ALLOW), ("a", LITERAL, DENY)], False),
        ([("a", PREFIXED, ALLOW), ("a", LITERAL, DENY)], True),
        ([("ab", PREFIXED, ALLOW), ("a", PREFIXED, DENY)], False),
        ([("ab", LITERAL, ALLOW), ("a", PREFIXED, DENY)], False),
        ([("a", PREFIXED, ALLOW), ("ab", PREFIXED, DENY)], True),
        ([("a", LITERAL, ALLOW), ("*", LITERAL, DENY)], False),
        ([("*", LITERAL, ALLOW), ("a", PREFIXED, DENY)], True),
        ([("*", LITERAL, ALLOW), ("h", PREFIXED, DENY)], True),
    ],
)
def test_authorize_any_is_allowed_unless_denials_cover_every_allow(
    rules: list[tuple[str, PatternType, Permission]], is_allowed: bool
) -> None:
    """PV-8: a principal that may write to any topic may get a producer id."""
    found = index(*((name, kind, entry(each, Operation.WRITE)) for name, kind, each in rules))
    assert found.authorize_any(ALICE, Operation.WRITE, ResourceKind.TOPIC).is_allowed is is_allowed
    assert not found.authorize_any(ALICE, Operation.WRITE, ResourceKind.GROUP).is_allowed
    anonymous = Requester(ANONYMOUS, "192.0.2.1")
    assert not found.authorize_any(anonymous, Operation.WRITE, ResourceKind.TOPIC).is_allowed


def test_authorize_any_is_allowed_if_resources_without_acls_are_open() -> None:
    rules = index(everyone=True)
    assert rules.authorize_any(ALICE, Operation.WRITE, ResourceKind.TOPIC).is_allowed
