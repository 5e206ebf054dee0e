"""`headwater acls`: options to ACL bindings, and the commands against a real broker."""

from collections.abc import Iterator

import pytest

from headwater.cli.security.acl_options import (
    AclRequest,
    Resources,
    bindings_for,
    filters_for,
    listed,
)
from headwater.client.admin.descriptions import Acl
from headwater.security.authorization.acl_bindings import PatternType, Permission
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell

ALICE = "User:alice"


def shown(rules: list[Acl]) -> set[str]:
    return {
        f"{each.resource_type.name} {each.resource_name} {each.pattern_type.name} "
        f"{each.operation.name}"
        for each in rules
    }


def test_producer_adds_the_acls_of_kafka_acls() -> None:
    rules = bindings_for(
        Resources(topics=["tea"], transactional_ids=["x"], is_prefixed=True),
        AclRequest(allowed=[ALICE], is_producer=True, is_idempotent=True),
    )
    assert shown(rules) == {
        "TOPIC tea PREFIXED WRITE",
        "TOPIC tea PREFIXED DESCRIBE",
        "TOPIC tea PREFIXED CREATE",
        "TRANSACTIONAL_ID x PREFIXED WRITE",
        "TRANSACTIONAL_ID x PREFIXED DESCRIBE",
        "CLUSTER kafka-cluster LITERAL IDEMPOTENT_WRITE",
    }
    assert {(each.principal, each.host, each.permission_type) for each in rules} == {
        (ALICE, "*", Permission.ALLOW)
    }


def test_consumer_adds_the_acls_of_kafka_acls() -> None:
    resources = Resources(topics=["tea"], groups=["drinkers"])
    rules = bindings_for(resources, AclRequest(allowed=[ALICE], is_consumer=True))
    assert shown(rules) == {
        "TOPIC tea LITERAL READ",
        "TOPIC tea LITERAL DESCRIBE",
        "GROUP drinkers LITERAL READ",
    }
    both = bindings_for(resources, AclRequest(allowed=[ALICE], is_consumer=True, is_producer=True))
    assert shown(both) == shown(rules) | {"TOPIC tea LITERAL WRITE", "TOPIC tea LITERAL CREATE"}
    assert len(both) == len(set(both))


def test_bindings_combine_principals_hosts_and_operations() -> None:
    rules = bindings_for(
        Resources(topics=["tea"], is_cluster=True),
        AclRequest(
            allowed=[ALICE, "User:bob"],
            denied=["User:eve"],
            allowed_hosts=["192.0.2.1", "192.0.2.2"],
            operations=["describe", "AlterConfigs", "DESCRIBE_CONFIGS"],
        ),
    )
    assert len(rules) == 2 * 3 * (2 * 2 + 1)
    (denial, *_) = [each for each in rules if each.permission_type is Permission.DENY]
    assert (denial.principal, denial.host) == ("User:eve", "*")
    (only,) = bindings_for(Resources(groups=["g"]), AclRequest(allowed=[ALICE]))
    assert only.operation is Operation.ALL


@pytest.mark.parametrize(
    ("resources", "acl_request", "complaint"),
    [
        (Resources(topics=["t"]), AclRequest(), "give --allow-principal"),
        (Resources(), AclRequest(allowed=[ALICE]), "give a resource"),
        (Resources(topics=["t"]), AclRequest(allowed=["alice"]), "User:alice"),
        (Resources(topics=["t"]), AclRequest(allowed=[ALICE], operations=["Drink"]), "Drink"),
        # Otherwise alice would be allowed, from any host.
        (
            Resources(topics=["t"]),
            AclRequest(allowed=[ALICE], denied_hosts=["192.0.2.7"]),
            "--deny-host",
        ),
        (
            Resources(topics=["t"]),
            AclRequest(denied=[ALICE], allowed_hosts=["192.0.2.7"]),
            "--allow-host",
        ),
        (Resources(groups=["g"]), AclRequest(allowed=[ALICE], is_consumer=True), "--topic"),
        (Resources(topics=["t"]), AclRequest(allowed=[ALICE], is_consumer=True), "--group"),
        (Resources(topics=["t"]), AclRequest(allowed=[ALICE], is_idempotent=True), "--producer"),
        (
            Resources(topics=["t"]),
            AclRequest(allowed=[ALICE], is_producer=True, operations=["Read"]),
            "--operation",
        ),
    ],
)
def test_missing_and_contradictory_options_are_named(
    resources: Resources, acl_request: AclRequest, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        bindings_for(resources, acl_request)


def test_remove_without_a_principal_selects_all_acls_of_a_resource() -> None:
    (meant,) = filters_for(Resources(topics=["tea"]), AclRequest())
    assert meant == Acl(
        resource_type=ResourceKind.TOPIC, resource_name="tea", pattern_type=PatternType.LITERAL
    )
    with pytest.raises(ValueError, match="give a resource"):
        filters_for(Resources(), AclRequest())


@pytest.mark.parametrize(
    "acl_request",
    [
        AclRequest(denied_hosts=["192.0.2.7"]),
        AclRequest(allowed_hosts=["192.0.2.7"]),
        AclRequest(operations=["Read"]),
        AclRequest(is_idempotent=True),
    ],
)
def test_remove_with_an_operation_requires_a_principal(
    acl_request: AclRequest,
) -> None:
    with pytest.raises(ValueError, match="give --allow-principal"):
        filters_for(Resources(topics=["tea"]), acl_request)


def test_list_matches_prefixed_and_wildcard_acls() -> None:
    assert listed(Resources(), []) == [Acl()]
    assert listed(Resources(), [ALICE]) == [Acl(principal=ALICE)]
    (meant,) = listed(Resources(topics=["tea"]), [])
    assert meant.pattern_type is PatternType.MATCH


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings) as opened:
        yield opened


def test_acls_are_added_listed_and_removed(broker: EmbeddedBroker) -> None:
    shell = Shell(broker.bootstrap_servers)
    shell.does(
        "acls", "add", "--allow-principal", ALICE, "--consumer", "--topic", "tea", "--group", "g"
    )
    shell.does(
        "acls", "add", "--deny-principal", "User:eve", "-o", "Read", "-t", "te", "--prefixed"
    )
    table = shell.does("acls", "list")
    assert table.splitlines()[0].split() == [
        "RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION",
    ]  # fmt: skip
    assert "Topic     te    PREFIXED  User:eve    *     Read       Deny" in table
    assert len(table.splitlines()) == 5
    applying = shell.tells("acls", "list", "--topic", "tea")
    assert {row["name"] for row in applying} == {"tea", "te"}
    assert applying[0] == {
        "resource": "Topic",
        "name": "te",
        "pattern": "PREFIXED",
        "principal": "User:eve",
        "host": "*",
        "operation": "Read",
        "permission": "Deny",
    }
    assert len(shell.tells("acls", "list", "--principal", ALICE)) == 3
    gone = shell.tells(
        "acls", "remove", "--allow-principal", ALICE, "--topic", "tea", "-o", "Describe"
    )
    assert [row["operation"] for row in gone] == ["Describe"]
    shell.does("acls", "remove", "--topic", "tea")
    assert {row["name"] for row in shell.tells("acls", "list")} == {"te", "g"}
    again = shell.run("acls", "remove", "--topic", "tea")
    assert (again.exit_code, again.stderr) == (1, "headwater: no ACL matches\n")


def test_an_acl_that_the_broker_rejects_is_named(broker: EmbeddedBroker) -> None:
    shell = Shell(broker.bootstrap_servers)
    refused = shell.run("acls", "add", "--allow-principal", ALICE, "-t", "tea", "-o", "Any")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "headwater: ALLOW ANY to User:alice from * on Topic:LITERAL:tea: "
        "an ACL needs one operation or ALL, not ANY\n"
    )


def test_invalid_options_fail_before_a_broker_is_contacted() -> None:
    shell = Shell("127.0.0.1:1")
    result = shell.run("acls", "add", "--topic", "tea")
    assert result.exit_code == 2
    assert "--allow-principal" in result.stderr


def test_a_broker_without_an_authorizer_names_the_setting() -> None:
    with EmbeddedBroker() as plain:
        result = Shell(plain.bootstrap_servers).run("acls", "list")
    assert result.exit_code == 1
    assert result.stderr == (
        "headwater: ACLs: this broker has no authorizer: set authorizer.class.name\n"
    )
