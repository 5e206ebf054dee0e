"""CreateAcls and DeleteAcls."""

from headwater.common.api_error import NO_ERROR, ApiError
from headwater.common.error_codes import ErrorCode
from headwater.controller import acl_control
from headwater.controller.acl_control import MAX_CHANGES, acls_of, create_acls, delete_acls
from headwater.metadata.changes import AclsReplaced, apply, changes_of
from headwater.metadata.cluster_image import FIRST_VERSION, ClusterImage
from headwater.security.authorization.acl_bindings import (
    AclBinding,
    AclEntry,
    AclSet,
    PatternType,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.acl_filters import AclFilter
from headwater.security.authorization.authorizer import Operation, ResourceKind

ALONE = ClusterImage(cluster_id="c", is_standalone=True)
MANY = ClusterImage(cluster_id="c")
TOPIC = ResourceKind.TOPIC


def rule(
    name: str = "orders",
    principal: str = "User:alice",
    operation: Operation = Operation.READ,
    *,
    kind: ResourceKind = TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
) -> AclBinding:
    entry = AclEntry(principal, "*", operation, permission)
    return AclBinding(ResourcePattern(kind, name, pattern_type), entry)


def created(image: ClusterImage, *rules: AclBinding) -> ClusterImage:
    decision = create_acls(image, rules)
    assert set(decision.answer) == {NO_ERROR}
    return apply(image, decision.changes, FIRST_VERSION)


def codes(image: ClusterImage, *rules: AclBinding) -> list[ErrorCode]:
    return [each.code for each in create_acls(image, rules).answer]


def test_acls_of_one_pattern_are_one_change_with_a_growing_version() -> None:
    alice, bob = rule(), rule(principal="User:bob")
    decision = create_acls(ALONE, [alice, bob, alice])
    entries = (alice.entry, bob.entry)
    assert decision.changes == [AclsReplaced(alice.pattern, AclSet(entries, 0))]
    image = apply(ALONE, decision.changes, FIRST_VERSION)
    carol = rule(principal="User:carol")
    (change,) = create_acls(image, [carol]).changes
    assert change == AclsReplaced(alice.pattern, AclSet((*entries, carol.entry), 1))


def test_creating_an_existing_acl_changes_nothing() -> None:
    image = created(ALONE, rule())
    decision = create_acls(image, [rule()])
    assert (decision.changes, decision.answer) == ([], (NO_ERROR,))


def test_invalid_acls_are_rejected_and_the_others_created() -> None:
    wrong = [
        rule(kind=ResourceKind.ANY),
        rule(kind=ResourceKind.UNKNOWN),
        rule(pattern_type=PatternType.MATCH),
        rule(pattern_type=PatternType.ANY),
        rule(operation=Operation.ANY),
        rule(operation=Operation.UNKNOWN),
        rule(permission=Permission.ANY),
        rule(name=""),
        rule(kind=ResourceKind.CLUSTER),
        rule(principal="alice"),
    ]
    decision = create_acls(ALONE, [*wrong, rule()])
    assert [each.code for each in decision.answer] == [
        *(ErrorCode.INVALID_REQUEST for _ in wrong),
        ErrorCode.NONE,
    ]
    assert all(each.reason for each in decision.answer[:-1])
    assert len(decision.changes) == 1
    assert codes(ALONE, rule("kafka-cluster", kind=ResourceKind.CLUSTER)) == [ErrorCode.NONE]


def test_a_name_that_zookeeper_cannot_store_is_rejected_only_in_a_cluster() -> None:
    """Kafka's authorizer on ZooKeeper rejects the slash; a group id may contain one."""
    for name in ("a/b", ".", "..", "a\0", "a\ue000"):
        group = rule(name, kind=ResourceKind.GROUP)
        assert codes(MANY, group) == [ErrorCode.INVALID_REQUEST]
        assert codes(ALONE, group) == [ErrorCode.NONE]
    assert codes(MANY, rule("päy.ments-*", kind=ResourceKind.GROUP)) == [ErrorCode.NONE]


def test_the_acls_of_a_pattern_fit_into_one_znode() -> None:
    image = MANY
    most = acl_control.MAX_PATTERN_BYTES // 1_000
    many = [rule(principal=f"User:{number}{'x' * 1_000}") for number in range(most)]
    outcomes = create_acls(image, many).answer
    refused = [each for each in outcomes if each.code]
    assert 0 < len(refused) < most / 2
    assert refused[0].code is ErrorCode.INVALID_REQUEST
    assert codes(image, many[-1]) == [ErrorCode.NONE]


def test_a_request_may_change_a_limited_number_of_acls() -> None:
    rules = [rule(f"t{number}") for number in range(MAX_CHANGES + 1)]
    decision = create_acls(ALONE, rules)
    assert not decision.changes
    assert {each.code for each in decision.answer} == {ErrorCode.POLICY_VIOLATION}
    image = created(created(ALONE, *rules[:-1]), rules[-1])
    removal = delete_acls(image, [AclFilter()])
    assert not removal.changes
    (refusal,) = removal.answer
    assert isinstance(refusal, ApiError)
    assert refusal.code is ErrorCode.INVALID_REQUEST


def test_each_filter_reports_its_matches_even_if_another_matched_them_too() -> None:
    alice, bob, other = rule(), rule(principal="User:bob"), rule("payments")
    image = created(ALONE, alice, bob, other)
    decision = delete_acls(
        image,
        [
            AclFilter(principal="User:alice"),
            AclFilter.of(alice),
            AclFilter(name="nothing"),
            AclFilter(kind=ResourceKind.UNKNOWN),
        ],
    )
    *found, refusal = decision.answer
    assert found == [(alice, other), (alice,), ()]
    assert isinstance(refusal, ApiError)
    assert refusal.code is ErrorCode.INVALID_REQUEST
    assert decision.changes == [
        AclsReplaced(alice.pattern, AclSet((bob.entry,), 1)),
        AclsReplaced(other.pattern, AclSet((), 1)),
    ]
    after = apply(image, decision.changes, FIRST_VERSION)
    assert list(acls_of(after, AclFilter())) == [bob]
    assert other.pattern not in after.acls


def test_a_pattern_starts_again_at_version_0_after_its_last_acl() -> None:
    image = created(ALONE, rule())
    image = created(image, rule(principal="User:bob"))
    image = apply(image, delete_acls(image, [AclFilter()]).changes, FIRST_VERSION)
    (change,) = create_acls(image, [rule()]).changes
    assert change == AclsReplaced(rule().pattern, AclSet((rule().entry,), 0))


def test_changes_of_an_image_contain_its_acls() -> None:
    image = created(ALONE, rule(), rule("p", pattern_type=PatternType.PREFIXED))
    assert apply(ALONE, changes_of(image), image.version) == image
