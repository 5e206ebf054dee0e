"""Pages on brokers and security, with a broker that has an authorizer."""

from collections.abc import Iterator

import pytest

from headwater.client import Acl, Admin, ConfigResource, QuotaEntity
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
HOSTILE = "User:\"'><script>alert(1)</script>"
BINDING = {
    "principal": HOSTILE,
    "permission": "Allow",
    "operation": "DescribeConfigs",
    "resource_type": "TransactionalId",
    "resource_name": "tea-",
    "pattern_type": "Prefixed",
    "host": "*",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap_servers) as console:
        yield console


def test_acl_is_added_listed_as_text_and_deleted(console: ConsoleProcess, admin: Admin) -> None:
    made = console.post("/acls", BINDING)
    assert (made.status, made.headers["location"]) == (303, "/acls?done=acl-created")
    assert console.api("/acls?search=tea")["acls"]["rows"] == [BINDING]
    assert "<script>alert" not in console.get("/acls").text
    other = {**BINDING, "principal": "User:bob"}
    assert console.post_json("/acls", other).status == 200
    assert console.post("/acls/delete", BINDING).status == 303
    assert [each.principal for each in admin.describe_acls()] == ["User:bob"]
    assert console.post("/acls/delete", BINDING).status == 400
    admin.delete_acls([Acl()])


@pytest.mark.parametrize("field", ["operation", "resource_type", "pattern_type", "permission"])
def test_filters_do_not_delete_acls(console: ConsoleProcess, admin: Admin, field: str) -> None:
    """A filter would delete other bindings than the one that the user sees."""
    console.post_json("/acls", BINDING)
    refused = console.post_json("/acls/delete", {**BINDING, field: "Any"})
    assert (refused.status, refused.json) == (400, {"error": "'Any' is for filters only."})
    assert len(admin.describe_acls()) == 1
    admin.delete_acls([Acl()])


def test_failed_form_keeps_what_was_typed(console: ConsoleProcess) -> None:
    page = console.post("/acls", {**BINDING, "operation": "Dance"})
    assert page.status == 400
    assert "is not one of" in page.text
    assert 'value="tea-"' in page.text


def test_user_is_saved_and_deleted_and_the_password_is_never_shown(
    console: ConsoleProcess, admin: Admin
) -> None:
    fields = {"name": "alice", "mechanism": "SCRAM-SHA-256", "password": "s3cret pass"}
    saved = console.post("/users", fields)
    assert saved.status == 303
    assert admin.describe_user_scram_credentials() == {"alice": {"SCRAM-SHA-256": 4096}}
    [row] = console.api("/users")["users"]["rows"]
    assert row == {
        "name": "alice",
        "mechanisms": [{"name": "SCRAM-SHA-256", "iterations": 4096}],
    }
    failed = console.post("/users", {**fields, "mechanism": "SCRAM-MD5"})
    assert failed.status == 409
    assert "s3cret" not in failed.text
    deleted = console.post("/users/delete", {"name": "alice", "mechanism": "SCRAM-SHA-256"})
    assert deleted.status == 303
    assert admin.describe_user_scram_credentials() == {}


def test_quota_is_set_and_removed(console: ConsoleProcess, admin: Admin) -> None:
    fields = {"user": "<default>", "client_id": "crawler", "quota": "producer_byte_rate"}
    assert console.post("/quotas", {**fields, "value": "1024"}).status == 303
    [row] = console.api("/quotas?search=crawl")["entities"]["rows"]
    assert row == {
        "user": "<default>",
        "client_id": "crawler",
        "ip": None,
        "quotas": [{"name": "producer_byte_rate", "value": 1024.0}],
    }
    assert "1 024" in console.get("/quotas").text
    assert admin.describe_client_quotas() == {
        QuotaEntity(user="", client_id="crawler"): {"producer_byte_rate": 1024.0}
    }
    for broken in ({"value": "much"}, {"user": "", "client_id": ""}):
        assert console.post("/quotas", {**fields, "value": "1", **broken}).status == 400
    assert console.post("/quotas", {**fields, "value": ""}).status == 303
    assert admin.describe_client_quotas() == {}


def test_logger_and_broker_config_are_changed_and_reset(
    console: ConsoleProcess, admin: Admin
) -> None:
    logger = ConfigResource.loggers(0)
    name = console.api("/brokers/0/loggers")["configs"][0]["name"]
    assert console.post("/brokers/0/loggers", {"name": name, "value": "DEBUG"}).status == 303
    assert admin.describe_configs([logger])[logger][name].value == "DEBUG"
    assert console.post("/brokers/0/loggers", {"name": name, "value": "LOUD"}).status == 409
    change = {"name": "log.retention.ms", "value": "5000"}
    assert console.post("/brokers/0/configs", change).status == 303
    page = console.get("/brokers/0/configs?search=OLD+segments").text
    assert "log.retention.bytes" in page
    assert "num.partitions" not in page
    rows = {each["name"]: each for each in console.api("/brokers/0/configs")["configs"]}
    assert rows["log.retention.ms"]["value"] == "5000"
    assert console.post("/brokers/0/configs", {**change, "reset": "1"}).status == 303
    assert console.post("/brokers/7/configs", change).status != 303


def test_cluster_without_kraft_says_where_its_metadata_is(console: ConsoleProcess) -> None:
    assert console.api("/quorum")["is_kraft"] is False
    assert "This cluster has no KRaft quorum" in console.get("/quorum").text
    assert "No partition is being reassigned." in console.get("/reassignments").text
    refused = console.post("/reassignments/cancel", {"topic": "missing", "partition": "0"})
    assert refused.status in (404, 409)
