"""DescribeAcls, CreateAcls and DeleteAcls, which take effect at once."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal
from headwater.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headwater.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headwater.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.simulation.labs.broker_lab import BrokerLab, Peer

WITH_RIGHTS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:CN=b,OU=c",
}
TOPIC, LITERAL, PREFIXED, MATCH, ANY, READ, ALLOW = 2, 3, 4, 2, 1, 3, 3
ADMIN = Principal("User", "admin")
ALICE = Principal("User", "alice")


def creation(
    name: str, principal: str = "User:alice", pattern_type: int = LITERAL, operation: int = READ
) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


def create(lab: BrokerLab, *creations: AclCreation, who: Principal = ADMIN) -> list[ErrorCode]:
    answer = lab.ask(CreateAclsRequest(creations=creations), CreateAclsResponse, peer=Peer(who))
    return [each.error_code for each in answer.results]


def describe(lab: BrokerLab, **wanted: object) -> tuple[DescribeAclsResource, ...]:
    every = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    request = DescribeAclsRequest(**{**every, **wanted})  # type: ignore[arg-type]
    answer = lab.ask(request, DescribeAclsResponse, peer=Peer(ADMIN))
    assert not answer.error_code
    return answer.resources


def topics_seen(lab: BrokerLab, who: Principal) -> list[str | None]:
    answer = lab.ask(MetadataRequest(topics=None), MetadataResponse, peer=Peer(who))
    return [each.name for each in answer.topics]


def test_without_an_authorizer_acl_requests_are_rejected() -> None:
    """AC-7"""
    lab = BrokerLab()
    described = lab.ask(DescribeAclsRequest(), DescribeAclsResponse)
    created = lab.ask(CreateAclsRequest(creations=(creation("t"),)), CreateAclsResponse)
    deleted = lab.ask(DeleteAclsRequest(filters=(DeleteAclsFilter(),)), DeleteAclsResponse)
    disabled = (
        ErrorCode.SECURITY_DISABLED,
        "this broker has no authorizer: set authorizer.class.name",
    )
    assert (described.error_code, described.error_message) == disabled
    (created_one,), (deleted_one,) = created.results, deleted.filter_results
    assert (created_one.error_code, created_one.error_message) == disabled
    assert (deleted_one.error_code, deleted_one.error_message) == disabled


def test_acl_takes_effect_when_it_is_acknowledged_until_it_is_deleted() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    assert create(lab, creation("t", operation=5), who=ALICE) == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    ]
    _make_topics(lab, "orders", "payments")
    assert topics_seen(lab, ADMIN) == ["orders", "payments"]
    assert topics_seen(lab, ALICE) == []
    assert create(lab, creation("ord", pattern_type=PREFIXED)) == [ErrorCode.NONE]
    assert topics_seen(lab, ALICE) == ["orders"]
    assert topics_seen(lab, ADMIN) == ["orders", "payments"]
    request = DeleteAclsRequest(
        filters=(
            DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter="orders",
                pattern_type_filter=MATCH,
                principal_filter=None,
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            ),
        )
    )
    refused = lab.ask(request, DeleteAclsResponse, peer=Peer(ALICE))
    assert refused.filter_results[0].error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (result,) = lab.ask(request, DeleteAclsResponse, peer=Peer(ADMIN)).filter_results
    (gone,) = result.matching_acls
    assert (gone.resource_name, gone.pattern_type, gone.principal) == (
        "ord",
        PREFIXED,
        "User:alice",
    )
    assert topics_seen(lab, ALICE) == []


def test_super_user_name_may_contain_commas() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    who = Principal("User", "CN=b,OU=c")
    assert create(lab, creation("t"), who=who) == [ErrorCode.NONE]


def test_acls_are_described_by_pattern() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    create(
        lab,
        creation("orders"),
        creation("orders", "User:bob"),
        creation("ord", pattern_type=PREFIXED),
        creation("*"),
        creation("payments"),
    )
    assert [each.resource_name for each in describe(lab)] == ["orders", "ord", "*", "payments"]
    matched = describe(lab, resource_name_filter="orders", pattern_type_filter=MATCH)
    assert [each.resource_name for each in matched] == ["orders", "ord", "*"]
    (only,) = describe(lab, resource_name_filter="orders", principal_filter="User:bob")
    assert only == DescribeAclsResource(
        resource_type=TOPIC,
        resource_name="orders",
        pattern_type=LITERAL,
        acls=(
            AclDescription(principal="User:bob", host="*", operation=READ, permission_type=ALLOW),
        ),
    )
    assert describe(lab, pattern_type_filter=PREFIXED, resource_name_filter="orders") == ()
    assert describe(lab, operation=99) == ()


def test_describe_acls_needs_describe_on_the_cluster() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    answer = lab.ask(DescribeAclsRequest(), DescribeAclsResponse, peer=Peer(ALICE))
    assert answer.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert answer.resources == ()


def test_each_acl_of_a_request_has_its_own_result() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    outcome = create(lab, creation("a"), creation(""), creation("b", "bob"), creation("a"))
    wrong = ErrorCode.INVALID_REQUEST
    assert outcome == [ErrorCode.NONE, wrong, wrong, ErrorCode.NONE]


def test_acls_survive_a_restart() -> None:
    lab = BrokerLab(WITH_RIGHTS)
    create(lab, creation("orders"))
    again = BrokerLab(WITH_RIGHTS, disk=lab.disk)
    assert [each.resource_name for each in describe(again)] == ["orders"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_versions_of_kafka_are_served(version: int) -> None:
    lab = BrokerLab(WITH_RIGHTS)
    request = CreateAclsRequest(creations=(creation("orders", pattern_type=PREFIXED),))
    lab.ask(request, CreateAclsResponse, version, Peer(ADMIN))
    wanted = DescribeAclsRequest(
        resource_type_filter=ANY,
        pattern_type_filter=ANY,
        operation=ANY,
        permission_type=ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
    )
    (found,) = lab.ask(wanted, DescribeAclsResponse, version, Peer(ADMIN)).resources
    assert found.pattern_type == PREFIXED


def _make_topics(lab: BrokerLab, *names: str) -> None:
    asked = tuple(MetadataRequestTopic(name=name) for name in names)
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=True)
    lab.ask(request, MetadataResponse, peer=Peer(ADMIN))
