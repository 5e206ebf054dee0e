"""Authorization in a cluster: all brokers have the ACLs and check the original principal."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal
from headwater.protocol.codec import response_class
from headwater.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headwater.protocol.messages.alter_partition import AlterPartitionRequest
from headwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from headwater.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headwater.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from headwater.protocol.messages.envelope import EnvelopeRequest
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headwater.protocol.messages.stop_replica import StopReplicaRequest
from headwater.protocol.messages.update_metadata import UpdateMetadataRequest
from headwater.protocol.older_versions import Message
from headwater.security.authorization.authorizer import Operation, Resource, ResourceKind
from tests.simulation.labs.broker_lab import Peer, R
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab, MemberNode
from tests.unit.broker.requests.test_api_routes import errors_in

RIGHTS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # Without authentication, brokers are anonymous.
    "super.users": "User:admin;User:ANONYMOUS",
}
ADMIN = Principal("User", "admin")
ALICE = Principal("User", "alice")
TOPIC, LITERAL, CREATE, ALLOW, ANY = 2, 3, 5, 3, 1
RULE = AclCreation(
    resource_type=TOPIC,
    resource_name="tea",
    resource_pattern_type=LITERAL,
    principal="User:alice",
    host="192.0.2.1",
    operation=CREATE,
    permission_type=ALLOW,
)
EVERY = DeleteAclsFilter(
    resource_type_filter=ANY,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)

_CREATING_TEA = Operation.CREATE, Resource(ResourceKind.TOPIC, "tea")


def ask(
    lab: ClusterNodeLab, node: MemberNode, request: Message, shape: type[R], who: Principal
) -> R:
    sent = node.send(request, peer=Peer(who))
    lab.run(2_000)
    return sent.answer(shape)


def make_tea(lab: ClusterNodeLab, node: MemberNode, who: Principal) -> ErrorCode:
    request = CreateTopicsRequest(topics=(topic("tea", 1, 1),), timeout_ms=10_000)
    (result,) = ask(lab, node, request, CreateTopicsResponse, who).topics
    return result.error_code


def allow_alice(lab: ClusterNodeLab, node: MemberNode) -> None:
    request = CreateAclsRequest(creations=(RULE,))
    (result,) = ask(lab, node, request, CreateAclsResponse, ADMIN).results
    assert not result.error_code, result


def rules_at(lab: ClusterNodeLab, node: MemberNode) -> list[str]:
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = ask(lab, node, request, DescribeAclsResponse, ADMIN)
    return [each.resource_name for each in answer.resources]


def test_acls_created_at_any_broker_apply_on_all() -> None:
    lab = ClusterNodeLab(3, texts=RIGHTS)
    allow_alice(lab, lab.others[0])
    assert [rules_at(lab, node) for node in lab.nodes] == [["tea"]] * 3
    for node in lab.nodes:
        assert node.broker.authorizer.allows(Peer(ALICE).requester, *_CREATING_TEA)
    answer = ask(lab, lab.others[1], DeleteAclsRequest(filters=(EVERY,)), DeleteAclsResponse, ADMIN)
    assert len(answer.filter_results[0].matching_acls) == 1
    assert [rules_at(lab, node) for node in lab.nodes] == [[]] * 3
    for node in lab.nodes:
        assert not node.broker.authorizer.allows(Peer(ALICE).requester, *_CREATING_TEA)


def test_forwarded_request_is_authorized_for_the_client_not_the_broker() -> None:
    """The forwarding broker may do everything; its client may not."""
    lab = ClusterNodeLab(3, texts=RIGHTS)
    for node in lab.nodes:
        assert make_tea(lab, node, ALICE) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    request = CreateAclsRequest(creations=(RULE,))
    (result,) = ask(lab, lab.others[0], request, CreateAclsResponse, ALICE).results
    assert result.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allow_alice(lab, lab.controller)
    assert make_tea(lab, lab.others[0], ALICE) is ErrorCode.NONE


def test_next_controller_and_returning_broker_have_the_acls() -> None:
    lab = ClusterNodeLab(3, texts=RIGHTS)
    allow_alice(lab, lab.controller)
    former = lab.controller
    former.crash()
    lab.run(lab.store.session_timeout_ms + 3_000)
    former.start()
    lab.run(3_000)
    assert [rules_at(lab, node) for node in lab.nodes] == [["tea"]] * 3
    allow_alice(lab, lab.controller)
    assert make_tea(lab, former, ALICE) is ErrorCode.NONE


@pytest.mark.parametrize(
    "request_",
    [
        LeaderAndIsrRequest(),
        StopReplicaRequest(),
        UpdateMetadataRequest(),
        ControlledShutdownRequest(),
        AlterPartitionRequest(),
        EnvelopeRequest(),
        AllocateProducerIdsRequest(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_inter_broker_request_of_a_client_is_rejected(request_: Message) -> None:
    """It may reach the listener, but lacks CLUSTER_ACTION."""
    lab = ClusterNodeLab(2, texts=RIGHTS)
    answer = ask(lab, lab.controller, request_, response_class(request_.api), ALICE)
    assert set(errors_in(answer)) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
