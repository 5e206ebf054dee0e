"""The registry as a process: HTTP, restarts, and several instances."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from hashlib import md5
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from headwater.client import Admin, ConfigResource, Consumer, Producer, TopicPartition
from headwater.client.schema_registry import RegistryResponseError, SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.unit.registry.registry_schemas import KIND, KIND_AND_GRAMS, record

V1 = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def registry(broker: EmbeddedBroker) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry


@pytest.fixture
def client(registry: EmbeddedRegistry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry.url) as client:
        yield client


def ask(
    registry: EmbeddedRegistry, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, str | None, Any]:
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    status, kind, answer = ask_raw(registry, path, method, raw, **headers)
    return status, kind, json.loads(answer)


def ask_raw(
    registry: EmbeddedRegistry,
    path: str,
    method: str = "GET",
    raw: bytes | None = None,
    **headers: str,
) -> tuple[int, str | None, bytes]:
    connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=TIMEOUT_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, raw, {"Content-Type": V1, **named})
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type"), response.read()
    finally:
        connection.close()


def error_code(answer: tuple[int, str | None, Any]) -> tuple[int, int]:
    return answer[0], answer[2]["error_code"]


def test_every_path_responds_as_documented(
    registry: EmbeddedRegistry,
) -> None:
    post = "/subjects/every/versions"
    assert ask(registry, "POST", post, {"schema": KIND})[:2] == (200, V1)
    schema_id = ask(registry, "POST", post, {"schema": KIND})[2]["id"]
    shown = {"guid": _guid(_text(KIND)), "schema": _text(KIND)}
    told = {"subject": "every", "version": 1, "id": schema_id, **shown}
    for method, path, body, expected in [
        ("GET", "/", None, {}),
        ("GET", "/subjects?subjectPrefix=eve", None, ["every"]),
        ("GET", "/subjects/every/versions", None, [1]),
        ("GET", "/subjects/every/versions/latest", None, told),
        ("GET", "/subjects/every/versions/-1", None, told),
        ("GET", "/subjects/every/versions/1/schema", None, json.loads(KIND)),
        ("GET", "/subjects/every/versions/1/referencedby", None, []),
        ("POST", "/subjects/every", {"schema": KIND}, told),
        ("GET", f"/schemas/ids/{schema_id}?subject=every&fetchMaxId=false", None, shown),
        ("GET", f"/schemas/guids/{shown['guid']}", None, shown),
        ("GET", f"/schemas/guids/{shown['guid']}/ids", None, [{"context": ".", "id": schema_id}]),
        ("GET", "/schemas/guids/tea/ids", None, []),
        ("GET", "/contexts", None, ["."]),
        ("GET", "/contexts?contextPrefix=.tea", None, []),
        ("GET", "/subjects/:.:every/versions/1", None, told),
        ("GET", "/subjects?subjectPrefix=:.:eve", None, ["every"]),
        ("GET", "/subjects?subjectPrefix=:*:eve&deletedOnly=true", None, []),
        ("GET", f"/schemas/ids/{schema_id}/schema", None, json.loads(KIND)),
        ("GET", f"/schemas/ids/{schema_id}/subjects?subject=every", None, ["every"]),
        (
            "GET",
            f"/schemas/ids/{schema_id}/versions?subject=every",
            None,
            [{"subject": "every", "version": 1}],
        ),
        ("GET", "/schemas/types", None, ["AVRO", "JSON", "PROTOBUF"]),
        ("GET", "/schemas?subjectPrefix=every", None, [told]),
        (
            "POST",
            "/compatibility/subjects/every/versions/latest",
            {"schema": KIND_AND_GRAMS},
            {"is_compatible": True},
        ),
        (
            "POST",
            "/compatibility/subjects/every/versions?verbose=true",
            {"schema": KIND_AND_GRAMS},
            {"is_compatible": True, "messages": []},
        ),
        ("GET", "/config", None, {"compatibilityLevel": "BACKWARD"}),
        ("PUT", "/config/every", {"compatibility": "full"}, {"compatibility": "FULL"}),
        ("GET", "/config/every", None, {"compatibilityLevel": "FULL"}),
        ("DELETE", "/config/every", None, {"compatibilityLevel": "FULL"}),
        ("GET", "/mode", None, {"mode": "READWRITE"}),
        ("PUT", "/mode/every", {"mode": "READONLY"}, {"mode": "READONLY"}),
        ("GET", "/mode/every", None, {"mode": "READONLY"}),
        ("DELETE", "/mode/every", None, {"mode": "READONLY"}),
        ("DELETE", "/subjects/every/versions/1", None, 1),
        ("GET", "/subjects/every/versions?deleted=true", None, [1]),
        ("GET", "/subjects/every/versions?deletedAsNegative=true&deleted=true", None, [-1]),
        ("GET", "/subjects?subjectPrefix=eve&deleted_only=true", None, ["every"]),
        ("DELETE", "/subjects/every/versions/1?permanent=true", None, 1),
    ]:
        assert ask(registry, method, path, body)[2] == expected, path


def _guid(text: str) -> str:
    return str(UUID(bytes=md5(text.encode(), usedforsecurity=False).digest()))


def _text(schema: str) -> str:
    return json.dumps(
        {"type": "record", "name": "Tea", "fields": json.loads(schema)["fields"]},
        separators=(",", ":"),
    )


def test_errors_have_confluents_codes(registry: EmbeddedRegistry) -> None:
    refusals: list[tuple[str, str, Any, tuple[int, int]]] = [
        ("GET", "/nowhere", None, (404, 404)),
        ("PUT", "/subjects", {}, (405, 405)),
        ("GET", "/schemas/ids/tea", None, (404, 404)),
        ("GET", "/schemas/ids/4711", None, (404, 40403)),
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/none/versions/x", None, (422, 42202)),
        ("GET", "/config/none", None, (404, 40408)),
        ("GET", "/mode/none", None, (404, 40409)),
        ("DELETE", "/config/none", None, (404, 40401)),
        ("PUT", "/config", {"compatibility": "tea"}, (422, 42203)),
        ("PUT", "/mode", {"mode": "tea"}, (422, 42204)),
        ("POST", "/subjects/none/versions", b"{", (400, 400)),
        ("POST", "/subjects/none/versions", b"", (422, 422)),
        ("POST", "/subjects/none/versions", [], (422, 422)),
        ("POST", "/subjects/none/versions", {}, (422, 42201)),
        ("POST", "/subjects/none/versions", {"schema": "x", "schemaType": "TOML"}, (422, 42201)),
        ("POST", "/subjects/none/versions", b"x" * 1_100_000, (413, 413)),
        ("POST", "/compatibility/subjects/none/versions/3", {"schema": KIND}, (404, 40402)),
    ]
    for method, path, body, expected in refusals:
        assert error_code(ask(registry, method, path, body)) == expected, path


def test_content_types_are_those_of_the_rest_api(registry: EmbeddedRegistry) -> None:
    plain = "application/json"
    assert ask(registry, "GET", "/subjects", Accept=plain)[:2] == (200, plain)
    assert ask(registry, "GET", "/subjects", Accept="*/*")[:2] == (200, V1)
    assert error_code(ask(registry, "GET", "/subjects", Accept="text/html")) == (406, 406)
    form = "application/x-www-form-urlencoded"
    posted = ask(registry, "POST", "/subjects/tea/versions", {"schema": KIND}, Content_Type=form)
    assert error_code(posted) == (415, 415)


def test_subjects_may_contain_slashes_and_percent_signs(client: SchemaRegistry) -> None:
    for subject in ("a/b", "50%", "%2F", "täe ?&#"):
        client.register(subject, '"string"')
        assert client.version(subject).subject == subject
        assert subject in client.subjects()
        client.delete(subject)


def test_schemas_survive_any_kind_of_stop(
    registry: EmbeddedRegistry, client: SchemaRegistry
) -> None:
    schema_id = client.register("kept", KIND)
    registry.restart()
    assert client.version("kept").id == schema_id
    registry.kill()
    registry.start()
    assert client.look_up("kept", KIND).id == schema_id


def topic_content(broker: EmbeddedBroker) -> dict[bytes, Any]:
    """The topic's contents after compaction."""
    found: dict[bytes, Any] = {}
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        place = TopicPartition("_schemas", 0)
        consumer.assign([place])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for each in consumer.poll(1):
                is_json = each.value is not None and each.value.startswith(b"{")
                found[each.key or b""] = json.loads(each.value or b"") if is_json else each.value
    return found


def test_topic_is_compacted_and_has_confluents_format(
    broker: EmbeddedBroker, client: SchemaRegistry
) -> None:
    schema_id = client.register("looked-at", KIND)
    client.set_compatibility("NONE", "looked-at")
    client.delete("looked-at")
    topic = ConfigResource.topic("_schemas")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        configs = admin.describe_configs([topic])[topic]
        assert configs["cleanup.policy"].value == "compact"
    found = topic_content(broker)
    assert found[b'{"keytype":"SCHEMA","subject":"looked-at","version":1,"magic":1}'] == {
        "subject": "looked-at",
        "version": 1,
        "id": schema_id,
        "schema": _text(KIND),
        "deleted": False,
    }
    assert found[b'{"keytype":"CONFIG","subject":"looked-at","magic":0}'] == {
        "subject": "looked-at",
        "compatibilityLevel": "NONE",
    }
    assert found[b'{"keytype":"DELETE_SUBJECT","subject":"looked-at","magic":0}'] == {
        "subject": "looked-at",
        "version": 1,
    }


def test_concurrent_instances_never_assign_an_id_twice(
    broker: EmbeddedBroker, registry: EmbeddedRegistry
) -> None:
    ids: dict[str, int] = {}

    def write(url: str, name: str) -> None:
        with SchemaRegistry(url) as each:
            for number in range(10):
                subject = f"{name}-{number}"
                ids[subject] = each.register(subject, record(name=f"R_{name}_{number}"))

    with EmbeddedRegistry(broker.bootstrap_servers) as other:
        urls = {"here": registry.url, "there": other.url}
        threads = [threading.Thread(target=write, args=(url, name)) for name, url in urls.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ids) == 20
        assert len(set(ids.values())) == 20
        with SchemaRegistry(other.url) as elsewhere:
            # A write reads to the end of the topic first, so this instance knows them all.
            elsewhere.register("last", '"string"')
            for subject, schema_id in ids.items():
                assert elsewhere.version(subject).id == schema_id


def test_reads_work_while_the_broker_is_down_and_writes_recover() -> None:
    with (
        EmbeddedBroker() as broker,
        EmbeddedRegistry(broker.bootstrap_servers, write_timeout_s=3) as registry,
        SchemaRegistry(registry.url, timeout=TIMEOUT_S) as client,
    ):
        schema_id = client.register("tea", KIND)
        broker.kill()
        assert client.version("tea").id == schema_id
        with pytest.raises(RegistryResponseError) as told:
            client.register("tea", KIND_AND_GRAMS)
        assert told.value.error_code in (50001, 50002)
        broker.start()
        assert patiently(lambda: client.register("tea", KIND_AND_GRAMS)) == schema_id + 1


def patiently(write: Callable[[], int]) -> int:
    """Retry: three seconds may not be enough on a busy machine."""
    for _ in range(20):
        try:
            return write()
        except RegistryResponseError:
            continue
    return write()


CONFLUENTS = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"FULL_TRANSITIVE"}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"tea-value","version":1,"magic":1}',
        b'{"subject":"tea-value","version":1,"id":100,"md5":"f00","schema":"{\\"type\\":\\"record\\",'
        b'\\"name\\":\\"Tea\\",\\"fields\\":[{\\"name\\":\\"kind\\",\\"type\\":\\"string\\"}]}",'
        b'"deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"proto","version":1,"magic":1}',
        b'{"subject":"proto","version":1,"id":101,"schemaType":"PROTOBUF",'
        b'"schema":"syntax = \\"proto3\\";","deleted":false}',
    ),
    (b'{"keytype":"SCHEMA","subject":"broken","version":1,"magic":1}', b"no json"),
]
"""As Confluent's registry writes them, in several versions, and a corrupt one."""


def test_topic_of_confluents_registry_is_taken_over_with_its_ids() -> None:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("_schemas", partitions=1, configs={"cleanup.policy": "compact"})
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for key, value in CONFLUENTS:
                producer.send("_schemas", value, key=key).result(TIMEOUT_S)
        with (
            EmbeddedRegistry(broker.bootstrap_servers) as registry,
            SchemaRegistry(registry.url) as client,
        ):
            assert client.subjects() == ["proto", "tea-value"]
            assert client.register("tea-value", KIND) == 100
            assert client.register("other-value", KIND) == 100
            assert client.register("new-value", KIND_AND_GRAMS) == 102
            assert client.compatibility() == "FULL_TRANSITIVE"
            assert client.schema(101).schema_type == "PROTOBUF"
            assert ask_raw(registry, "/schemas/ids/101/schema")[0] == 200
            client.set_compatibility("NONE")
        # The key has exactly the same bytes, otherwise compaction would keep both.
        configs = {key: each for key, each in topic_content(broker).items() if b"CONFIG" in key}
        assert configs == {CONFLUENTS[1][0]: {"compatibilityLevel": "NONE"}}


def test_topic_without_compaction_is_rejected() -> None:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("_schemas", partitions=1)
        ended = start_registry("--bootstrap", broker.bootstrap_servers, "--listen", "127.0.0.1:0")
        assert ended.returncode == 2
        assert "cleanup.policy=compact" in ended.stderr


def start_registry(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "registry", "start", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_port_in_use_or_no_broker_is_one_line_and_exit_code_2(
    broker: EmbeddedBroker, registry: EmbeddedRegistry
) -> None:
    taken = urlsplit(registry.url).netloc
    for arguments in (
        ("--bootstrap", broker.bootstrap_servers, "--listen", taken),
        ("--bootstrap", "127.0.0.1:1", "--listen", "127.0.0.1:0"),
        ("--bootstrap", broker.bootstrap_servers, "--listen", "nonsense"),
    ):
        ended = start_registry(*arguments)
        assert ended.returncode == 2, ended.stderr
        assert ended.stdout == ""
        [line] = ended.stderr.splitlines()
        assert line.startswith("headwater: ")


REGISTER = "/subjects/guarded/versions"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Origin": "http://other.localhost"},
    ],
)
def test_cross_site_changes_are_rejected(
    registry: EmbeddedRegistry, headers: dict[str, str]
) -> None:
    answer = ask(registry, "POST", REGISTER, {"schema": KIND}, **headers)
    assert error_code(answer) == (403, 403)
    assert ask(registry, "GET", REGISTER)[2]["error_code"] == 40401


def test_unknown_host_name_is_rejected_for_reads_too(registry: EmbeddedRegistry) -> None:
    """DNS rebinding: for the browser it is the same site, so only the Host header shows it."""
    answer = ask(registry, "GET", "/subjects", Host="evil.example:8081")
    assert error_code(answer) == (403, 403)
    assert "--host evil.example" in answer[2]["message"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_body_with_a_simple_content_type_is_rejected(registry: EmbeddedRegistry, kind: str) -> None:
    answer = ask(registry, "POST", REGISTER, {"schema": KIND}, Content_Type=kind)
    assert error_code(answer) == (415, 415)


@pytest.mark.parametrize(
    "kind",
    [
        V1,
        "application/vnd.schemaregistry.v1+json; charset=utf-8",
        "application/vnd.schemaregistry+json; qs=0.9",
        "application/json",
        "application/octet-stream",
    ],
)
@pytest.mark.parametrize("host", ["localhost", "schema-registry:8081", "10.1.2.3"])
def test_addresses_and_names_without_a_dot_are_accepted(
    registry: EmbeddedRegistry, kind: str, host: str
) -> None:
    path = "/compatibility/subjects/guarded/versions"
    answer = ask(registry, "POST", path, {"schema": KIND}, Content_Type=kind, Host=host)
    assert answer[0] == 200, answer


def test_allowed_host_names_are_accepted(broker: EmbeddedBroker) -> None:
    settings = {"headwater.allowed.hosts": "registry.example"}
    with EmbeddedRegistry(broker.bootstrap_servers, settings) as registry:
        assert ask(registry, "GET", "/subjects", Host="registry.example")[0] == 200
        assert ask(registry, "GET", "/subjects", Host="other.example")[0] == 403


def test_metadata_has_the_cluster_id_and_the_api_version(
    broker: EmbeddedBroker, registry: EmbeddedRegistry
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    assert ask(registry, "GET", "/v1/metadata/id")[2] == {
        "id": "",
        "scope": {
            "path": [],
            "clusters": {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"},
        },
    }
    assert ask(registry, "GET", "/v1/metadata/version")[2]["version"].startswith("7.9.0-headwater-")


def test_force_skips_the_check_and_the_whole_version_is_returned_on_request(
    registry: EmbeddedRegistry,
) -> None:
    path = "/subjects/forced/versions"
    assert ask(registry, "POST", path, {"schema": KIND})[0] == 200
    priced = {"schema": record(name="Other")}
    assert error_code(ask(registry, "POST", path, priced)) == (409, 40901)
    more = {"Confluent_Accept_Unknown_Properties": "true"}
    answer = ask(registry, "POST", f"{path}?force=true", priced, **more)[2]
    assert sorted(answer) == ["guid", "id", "schema", "version"]
    assert answer["version"] == 2
