"""axe-core finds no accessibility errors on any page, in light and dark, on desktop and phone.

`make test-browser` downloads axe-core with npm into ~/.cache/headwater/axe; skipped without it.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import (
    Acl,
    Admin,
    ConfigResource,
    NewTopic,
    Producer,
    QuotaEntity,
    ScramUpsertion,
    TopicPartition,
)
from headwater.client.avro import AvroSerializer
from headwater.client.schema_registry import SchemaRegistry
from headwater.pipelines.run.run_records import TOPIC, TOPIC_CONFIGS, PublishedRun, run_record
from headwater.security.authorization.acl_bindings import PatternType, Permission
from headwater.security.authorization.authorizer import Operation, ResourceKind
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.browser.chromium import Browser, browser, missing
from tests.console_process import ConsoleProcess

AXE = Path(os.environ.get("HEADWATER_AXE", Path.home() / ".cache/headwater/axe/package/axe.min.js"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.skipif(not AXE.is_file(), reason=f"{AXE} is missing: make axe"),
]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
PAGES = [
    "/",
    "/brokers",
    "/brokers/0",
    "/brokers/0/configs?edit=log.retention.ms",
    "/brokers/0/loggers",
    "/reassignments",
    "/quorum",
    "/topics",
    "/topics/tea",
    "/topics/tea/configs?edit=retention.ms",
    "/topics/tea/records",
    "/topics/tea/records/0/0",
    "/topics/tea/tail",
    "/topics/tea/groups",
    "/messages?topic0=tea&topic1=avro",
    "/groups",
    "/groups/drinkers",
    "/groups/drinkers/reset?to=latest",
    "/pipelines",
    "/pipelines/orders-to-lake",
    "/transactions",
    "/acls",
    "/users",
    "/quotas",
    "/schemas",
    "/schemas/avro-value",
    "/nowhere",
]


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleProcess]:
    with EmbeddedBroker(SETTINGS) as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        fill(broker.bootstrap_servers, registry.url)
        with ConsoleProcess(broker.bootstrap_servers, "--registry", registry.url) as console:
            yield console


def fill(servers: str, registry: str) -> None:
    """Data of every kind, so that no page is empty."""
    runs = NewTopic(name=TOPIC, partitions=1, configs=dict(TOPIC_CONFIGS))
    allowed = Acl(
        resource_type=ResourceKind.TOPIC,
        resource_name="tea",
        pattern_type=PatternType.PREFIXED,
        principal="User:alice",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )
    sinks = (
        {"sink": "lake", "state": "running", "rows_per_second": 812.5, "rows": 4000, "lag": 17,
         "batch_ms": 420, "dropped_rows": 1, "restarts": 2, "error": "disk full"},
        {"sink": "dead-letters-of-orders", "state": "running", "rows": 3},
    )  # fmt: skip
    run = PublishedRun(
        name="orders-to-lake",
        host="a.example",
        pid=17,
        file="orders.yaml",
        started_ms=1_700_000_000_000,
        told_ms=32_503_680_000_000,
        state="running",
        sinks=sinks,
    )
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        SchemaRegistry(registry) as schemas,
    ):
        admin.create_topics(
            [NewTopic(name="tea", partitions=2), NewTopic(name="avro", partitions=1), runs]
        )
        for number in range(60):
            value = json.dumps({"cup": number, "with": ["milk", None], "hot": True}).encode()
            producer.send("tea", value, key=b"%d" % number, headers=[("h", b"1"), ("none", None)])
        producer.send("avro", AvroSerializer(schemas, TEA, topic="avro")({"kind": "green"}))
        key, value = run_record(run)
        producer.send(TOPIC, value, key=key)
        producer.flush()
        admin.alter_group_offsets("drinkers", {TopicPartition("tea", 0): 1})
        admin.create_acls([allowed])
        admin.alter_user_scram_credentials([ScramUpsertion(user="alice", password="secret")])
        admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1024.0}})
        admin.alter_configs({ConfigResource.topic("tea"): {"retention.ms": "86400000"}})


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as window:
        yield window


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_page_has_no_accessibility_errors(
    console: ConsoleProcess, window: Browser, path: str, scheme: str
) -> None:
    window.emulate("prefers-color-scheme", scheme)
    for width in (390, 1280):
        window.narrow(width)
        window.open(console.url + path)
        if path == "/":
            window.wait_for("document.querySelector('svg[data-chart]') !== null")
        window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        window.run(AXE.read_text("utf-8"))
        window.run("window.found = null; axe.run().then((each) => { window.found = each; })")
        window.wait_for("window.found !== null")
        violations = window.run(
            """return window.found.violations.map((each) =>
            `${each.id}: ${each.nodes.slice(0, 3).map((one) => one.html).join(" | ")}`)"""
        )
        assert violations == [], f"{path} at {width} pixels"
