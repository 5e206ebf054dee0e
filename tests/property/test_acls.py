"""The ACL index gives the same results as a scan of all bindings."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.principal import Principal, Requester
from headwater.security.authorization.acl_authorizer import AclIndex
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.acl_filters import AclFilter, applies
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind

_IMPLYING = {
    Operation.DESCRIBE: [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER],
    Operation.DESCRIBE_CONFIGS: [Operation.ALTER_CONFIGS],
}

NAMES = st.text("ab", min_size=1, max_size=4)
KINDS = st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP])
OPERATIONS = st.sampled_from([each for each in Operation if each > Operation.ALL])
PATTERNS = st.builds(
    ResourcePattern,
    KINDS,
    NAMES | st.just("*"),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES = st.builds(
    AclEntry,
    st.sampled_from(["User:x", "User:y", "User:*", "Group:x"]),
    st.sampled_from(["*", "192.0.2.1", "192.0.2.2"]),
    OPERATIONS | st.just(Operation.ALL),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
RULES = st.lists(st.builds(AclBinding, PATTERNS, ENTRIES), max_size=12)
REQUESTERS = st.builds(
    Requester,
    st.builds(Principal, st.just("User"), st.sampled_from(["x", "y", "z"])),
    st.sampled_from(["192.0.2.1", "192.0.2.2"]),
)


def by_scan(
    rules: list[AclBinding],
    requester: Requester,
    operation: Operation,
    resource: Resource,
    everyone: bool,
) -> bool:
    about = [
        entry
        for pattern, entry in rules
        if pattern.kind is resource.kind and applies(pattern, resource.name)
    ]
    if not about:
        return everyone
    meant = [
        entry
        for entry in about
        if entry.principal in (str(requester.principal), "User:*")
        and entry.host in (requester.host, "*")
    ]
    denied = [each.operation for each in meant if each.permission is Permission.DENY]
    allowed = [each.operation for each in meant if each.permission is Permission.ALLOW]
    if operation in denied or Operation.ALL in denied:
        return False
    granting = [operation, Operation.ALL, *_IMPLYING.get(operation, [])]
    return any(each in granting for each in allowed)


def filled(rules: list[AclBinding], everyone: bool) -> AclIndex:
    index = AclIndex(everyone_if_no_acl=everyone)
    found: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for pattern, entry in rules:
        found[pattern] = (*found.get(pattern, ()), entry)
        # Added one by one, so that the index is also updated and not only built.
        index.replace(pattern, found[pattern])
    return index


@settings(max_examples=400, deadline=None)
@given(RULES, RULES, REQUESTERS, OPERATIONS, KINDS, NAMES, st.booleans())
def test_authorization_equals_a_scan_of_all_acls(
    rules: list[AclBinding],
    gone: list[AclBinding],
    requester: Requester,
    operation: Operation,
    kind: ResourceKind,
    name: str,
    everyone: bool,
) -> None:
    """AC-1, AC-2, AC-3"""
    index = filled(gone + rules, everyone)
    kept = [each for each in rules if each.pattern not in {pattern for pattern, _ in gone}]
    for pattern, _ in gone:
        index.replace(pattern, ())
    resource = Resource(kind, name)
    result = index.authorize(requester, operation, resource)
    assert result.is_allowed is by_scan(kept, requester, operation, resource, everyone)


@settings(max_examples=200, deadline=None)
@given(RULES, REQUESTERS, OPERATIONS, KINDS)
def test_authorization_for_any_name_implies_one_for_some_name(
    rules: list[AclBinding], requester: Requester, operation: Operation, kind: ResourceKind
) -> None:
    """Names that a DENY does not cover count as any."""
    index = filled(rules, everyone=False)
    may_some = index.authorize_any(requester, operation, kind).is_allowed
    named = [pattern for pattern, _ in rules if pattern.kind is kind and pattern.name != "*"]
    names = {pattern.name for pattern in named}
    names |= {f"{name}{letter}" for name in names for letter in "abc"} | {"fresh"}
    may_named = any(
        by_scan(
            [
                # Implied operations do not count.
                rule
                for rule in rules
                if rule.entry.operation in (operation, Operation.ALL)
            ],
            requester,
            operation,
            Resource(kind, name),
            everyone=False,
        )
        for name in sorted(names)
    )
    # A wildcard with many DENY bindings counts as allowed, whatever is left of it.
    assert may_some or not may_named


@given(st.builds(AclBinding, PATTERNS, ENTRIES), NAMES)
def test_filter_of_a_binding_matches_it_and_match_includes_what_applies(
    rule: AclBinding, name: str
) -> None:
    assert AclFilter().matches(rule)
    assert AclFilter.of(rule).matches(rule)
    assert not AclFilter(kind=ResourceKind.CLUSTER).matches(rule)
    matching = AclFilter(name=name, pattern_type=PatternType.MATCH)
    assert matching.matches(rule) is applies(rule.pattern, name)
    called = AclFilter(name=name, pattern_type=PatternType.ANY)
    assert called.matches(rule) is (rule.pattern.name == name)
