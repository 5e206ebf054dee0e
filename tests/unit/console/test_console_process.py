"""The console as a process, with a real broker and a real registry."""

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from headwater.client import Admin, ConfigResource, Consumer, NewTopic, Producer, TopicPartition
from headwater.client.avro import AvroSerializer
from headwater.client.json_schema import JsonSerializer
from headwater.client.schema_registry import SchemaRegistry
from headwater.testing import EmbeddedBroker, EmbeddedRegistry
from tests.console_process import TIMEOUT_S, ConsoleProcess

HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(2)>"""
GROUP = f"{HOSTILE}/&?"
TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
JSON_TEA = '{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"]}'


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def filled(broker: EmbeddedBroker, admin: Admin) -> Iterator[str]:
    """The URL of a registry, and a broker with data of every kind."""
    admin.create_topics(
        [
            NewTopic(name="tea", partitions=3),
            NewTopic(name="hostile", partitions=1),
            NewTopic(name="avro", partitions=1),
            NewTopic(name="json", partitions=1),
            NewTopic(name="empty", partitions=1),
        ]
    )
    with (
        EmbeddedRegistry(broker.bootstrap_servers) as registry,
        SchemaRegistry(registry.url) as schemas,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        green = AvroSerializer(schemas, TEA, topic="avro")({"kind": "green"})
        black = JsonSerializer(schemas, JSON_TEA, topic="json")({"kind": "black"})
        for number in range(30):
            value = json.dumps({"number": number}).encode()
            producer.send("tea", value, key=b"%d" % number, partition=number % 3, timestamp=number)
        raw = HOSTILE.encode()
        producer.send("hostile", raw, key=raw, headers=[(HOSTILE, raw), ("none", None)])
        producer.send("hostile", None, key=b"gone")
        producer.send("avro", green)
        producer.send("json", black)
        producer.flush()
        for group in (GROUP, "drinkers", "doomed"):
            admin.alter_group_offsets(group, {TopicPartition("tea", 0): 4})
        yield registry.url


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker, filled: str) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap_servers, "--registry", filled) as console:
        yield console


PAGES = [
    "/",
    "/overview",
    "/brokers",
    "/brokers/0",
    "/brokers/0/configs",
    f"/brokers/0/configs?search={quote(HOSTILE)}",
    "/brokers/0/loggers",
    "/reassignments",
    "/quorum",
    "/acls",
    "/users",
    "/quotas",
    "/pipelines",
    "/messages",
    "/messages?topic0=tea&topic1=hostile&limit=50",
    "/topics",
    "/topics?internal=1&sort=size&search=e",
    "/topics/tea",
    "/topics/tea/configs",
    "/topics/tea/configs?edit=retention.ms",
    "/topics/tea/records",
    "/topics/tea/records?start=time&at=1970-01-01&filter=1",
    "/topics/tea/records/0/1",
    "/topics/hostile/records",
    "/topics/hostile/records/0/0",
    "/topics/hostile/tail",
    "/topics/avro/records",
    "/topics/json/records",
    "/topics/empty",
    "/topics/empty/records",
    "/groups",
    f"/groups?search={quote(HOSTILE)}",
    f"/groups/{quote(GROUP, safe='')}",
    f"/groups/{quote(GROUP, safe='')}/reset?to=latest",
    "/transactions",
    "/schemas",
    "/schemas/avro-value",
    "/schemas/json-value",
    f"/schemas/{quote(HOSTILE, safe='')}",
    f"/topics/{quote(HOSTILE, safe='')}",
    f"/topics?search={quote(HOSTILE)}&done={quote(HOSTILE)}",
    f"/{quote(HOSTILE)}",
]


class Elements(HTMLParser):
    """Collects the elements of a page; unclosed elements are an error."""

    VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("path", PAGES)
def test_untrusted_text_is_escaped_on_every_page(console: ConsoleProcess, path: str) -> None:
    """Keys, values, headers, group ids and query parameters are only shown as text."""
    page = console.get(path)
    assert page.headers["content-type"].startswith("text/html")
    found = Elements(page.text).found
    scripts = [attributes for tag, attributes in found if tag == "script"]
    assert len(scripts) == 1
    assert str(scripts[0]["src"]).startswith("/assets/")
    pictures = [attributes["src"] or "" for tag, attributes in found if tag == "img"]
    assert all(each.startswith("/assets/") for each in pictures)
    assert not [
        name for _, attributes in found for name in attributes if name.startswith(("on", "style"))
    ]
    links = [str(attributes["href"]) for _, attributes in found if "href" in attributes]
    assert all(each.startswith(("/", "#")) and not each.startswith("//") for each in links if each)
    places = {f"#{attributes['id']}" for _, attributes in found if "id" in attributes}
    assert {each for each in links if each.startswith("#")} <= places


@pytest.mark.parametrize("path", ["/", "/api/overview", "/nowhere", "/api/nowhere"])
def test_every_response_has_security_headers(console: ConsoleProcess, path: str) -> None:
    headers = console.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_overview_shows_the_state_of_the_cluster(
    console: ConsoleProcess, broker: EmbeddedBroker
) -> None:
    page_data = console.api("/overview")
    assert page_data["controller"] == 0
    assert [each["address"] for each in page_data["brokers"]] == [broker.bootstrap_servers]
    assert page_data["offline"] == page_data["under_replicated"] == 0
    assert [each["title"] for each in page_data["charts"]["charts"]][:2] == [
        "Records in",
        "Log growth",
    ]
    assert "All partitions are online and in sync." in console.get("/").text
    assert console.api("/brokers/0")["broker"]["is_controller"]


def test_topics_are_listed_searched_and_paged(console: ConsoleProcess) -> None:
    [tea] = console.api("/topics?search=TEA")["topics"]["rows"]
    assert (tea["name"], tea["partitions"], tea["replicas"], tea["records"]) == ("tea", 3, 1, 30)
    assert tea["log_bytes"] > 0
    first = console.api("/topics?size=2&internal=1")["topics"]
    second = console.api("/topics?size=2&internal=1&page=2")["topics"]
    assert len(first["rows"]) == 2
    names = [each["name"] for each in first["rows"] + second["rows"]]
    assert names == sorted(set(names))
    largest = console.api("/topics?sort=size&internal=1")["topics"]["rows"]
    sizes = [each["log_bytes"] for each in largest]
    assert sizes == sorted(sizes, reverse=True)


def test_topic_page_shows_partitions_and_configs(console: ConsoleProcess) -> None:
    page_data = console.api("/topics/tea")
    assert [
        (each["leader"], each["isr"], each["start"], each["end"])
        for each in page_data["partitions"]["rows"]
    ] == [(0, [0], 0, 10)] * 3
    assert {each["name"] for each in page_data["configs"]} >= {"retention.ms", "cleanup.policy"}


def test_new_topic_is_found_despite_the_cache(console: ConsoleProcess, admin: Admin) -> None:
    """The cluster view is cached for two seconds, but a missing topic refreshes it."""
    console.api("/topics")
    admin.create_topic("brand-new", partitions=1)
    assert console.api("/topics/brand-new")["topic"]["partitions"] == 1


def numbers(console: ConsoleProcess, query: str) -> list[int]:
    records = console.api(f"/topics/tea/records?{query}")["records"]
    return [json.loads(each["value"]["text"])["number"] for each in records]


def test_records_are_listed_from_either_end_an_offset_or_a_time(console: ConsoleProcess) -> None:
    assert numbers(console, "limit=5") == [25, 26, 27, 28, 29]
    assert numbers(console, "start=oldest&limit=4") == [0, 1, 2, 3]
    assert numbers(console, "start=offset&at=8&limit=200") == [24, 25, 26, 27, 28, 29]
    assert numbers(console, "start=time&at=27") == [27, 28, 29]
    assert numbers(console, "partition=1&limit=3") == [22, 25, 28]
    assert numbers(console, "filter=%22number%22:%2012") == [12]


def test_offset_without_from_offset_causes_a_warning(console: ConsoleProcess) -> None:
    told = "&#x27;8&#x27; has no effect: choose From offset or From time"
    assert told in console.get("/topics/tea/records?at=8").text
    assert "has no effect" not in console.get("/topics/tea/records?start=offset&at=8").text


def test_next_page_of_records_continues_where_the_last_one_ended(console: ConsoleProcess) -> None:
    page_data = console.api("/topics/tea/records?limit=7")
    seen = []
    while True:
        seen += [json.loads(each["value"]["text"])["number"] for each in page_data["records"]]
        if page_data["older"] is None:
            break
        page_data = console.api(f"/topics/tea/records?limit=7&before={page_data['older']}")
    assert sorted(seen) == list(range(30))
    assert page_data["newer"] is not None
    assert numbers(console, f"limit=7&after={page_data['newer']}")


def test_record_page_shows_the_whole_record_with_headers(console: ConsoleProcess) -> None:
    record = console.api("/topics/hostile/records/0/0")["record"]
    assert record["key"]["text"] == record["value"]["text"] == HOSTILE
    assert [(each["name"], each["value"]["format"]) for each in record["headers"]] == [
        (HOSTILE, "text"),
        ("none", "null"),
    ]
    assert console.api("/topics/hostile/records/0/1")["record"]["value"]["format"] == "null"
    page = console.get("/topics/hostile/records?key_format=hex").text
    assert "<code>67 6f 6e 65 gone</code>" in page, "a preview begins with the bytes"
    hexed = console.api("/topics/hostile/records/0/1?key_format=hex")["record"]["key"]["text"]
    assert "67 6f 6e 65" in hexed
    assert console.get("/topics/hostile/records/0/99").status == 404


def test_avro_is_decoded_with_the_registrys_schema(console: ConsoleProcess) -> None:
    [record] = console.api("/topics/avro/records")["records"]
    assert record["value"]["format"] == "avro"
    assert json.loads(record["value"]["text"]) == {"kind": "green"}
    for query, count in (
        ("filter=%22kind%22:%20%22GREEN", 1),
        ("filter=%22kind%22&within=key", 0),
        ("filter=%22kind%22&value_format=hex", 0),
    ):
        assert len(console.api(f"/topics/avro/records?{query}")["records"]) == count
    assert console.api("/schemas")["subjects"]["rows"] == ["avro-value", "json-value"]
    schema = console.api("/schemas/avro-value")
    assert json.loads(schema["schema"]) == json.loads(TEA)
    assert (schema["version"], schema["versions"]) == (1, [1])


def test_json_with_a_schema_is_shown_with_its_id(console: ConsoleProcess) -> None:
    [record] = console.api("/topics/json/records")["records"]
    assert record["value"]["format"] == "json"
    assert json.loads(record["value"]["text"]) == {"kind": "black"}
    schema = console.api("/schemas/json-value")
    assert (schema["type"], json.loads(schema["schema"])) == ("JSON", json.loads(JSON_TEA))
    assert console.api("/schemas/avro-value")["type"] == "AVRO"


def test_groups_show_their_lag(console: ConsoleProcess) -> None:
    found = {each["id"]: each for each in console.api("/groups")["groups"]["rows"]}
    assert found[GROUP]["lag"] == 6
    page_data = console.api(f"/groups/{quote(GROUP, safe='')}")
    assert [(each["topic"], each["offset"], each["end"]) for each in page_data["lags"]["rows"]] == [
        ("tea", 4, 10)
    ]
    assert console.get("/groups/missing").status == 404


def test_group_page_shows_members(console: ConsoleProcess, broker: EmbeddedBroker) -> None:
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        group_id="present",
        client_id=HOSTILE,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe(["tea"])
        assert consumer.poll(TIMEOUT_S)
        [member] = console.api("/groups/present")["members"]
        assert member["client"] == HOSTILE
        assert len(member["partitions"]) == 3
        Elements(console.get("/groups/present").text)
        refused = console.post("/groups/present/delete", {"confirm": "present"})
        assert refused.status == 409


def test_topic_is_created_altered_and_deleted(console: ConsoleProcess, admin: Admin) -> None:
    made = console.post(
        "/topics", {"name": "fresh", "partitions": "2", "configs": "retention.ms=5000"}
    )
    assert (made.status, made.headers["location"]) == (303, "/topics/fresh?done=topic-created")
    assert "The topic was created." in console.get(made.headers["location"]).text
    console.post("/topics/fresh/partitions", {"partitions": "3"})
    assert len(admin.describe_topics(["fresh"])["fresh"].partitions) == 3
    console.post("/topics/fresh/configs", {"name": "retention.ms", "value": "7000"})
    resource = ConfigResource.topic("fresh")
    assert admin.describe_configs([resource])[resource]["retention.ms"].value == "7000"
    console.post("/topics/fresh/configs", {"name": "retention.ms", "reset": "1"})
    assert admin.describe_configs([resource])[resource]["retention.ms"].is_default
    fields = {"key": "k", "value": '{"a": 1}', "value_format": "json", "headers": "h=1\nx=y=z"}
    sent = console.post("/topics/fresh/records", {**fields, "partition": "1"})
    assert sent.headers["location"] == "/topics/fresh/records?done=record-sent"
    [record] = console.api("/topics/fresh/records")["records"]
    assert (record["partition"], record["key"]["text"]) == (1, "k")
    assert [each["name"] for each in record["headers"]] == ["h", "x"]
    unsure = console.post("/topics/fresh/delete", {"confirm": "fres"})
    assert unsure.status == 400
    assert "fresh" in admin.list_topics()
    assert console.post("/topics/fresh/delete", {"confirm": "fresh"}).status == 303
    assert "fresh" not in admin.list_topics()


def test_protobuf_is_produced_shown_and_found(console: ConsoleProcess, admin: Admin) -> None:
    admin.create_topic("pots", partitions=1)
    with SchemaRegistry(console.api("/schemas")["url"]) as schemas:
        pot = 'syntax = "proto3"; message Pot { string glaze = 1; int32 cups = 2; }'
        schemas.register("pots-value", pot, schema_type="PROTOBUF")
    body = {"value": '{"glaze": "celadon", "cups": 4}', "value_format": "protobuf"}
    assert console.post_json("/topics/pots/records", body).status == 200
    for query in ("", "?value_format=protobuf", "?filter=%22cups%22:%204"):
        [record] = console.api(f"/topics/pots/records{query}")["records"]
        assert record["value"]["format"] == "protobuf"
        assert json.loads(record["value"]["text"]) == {"glaze": "celadon", "cups": 4}
    schema = console.api("/schemas/pots-value")
    assert (schema["type"], schema["schema"].splitlines()[2]) == ("PROTOBUF", "message Pot {")
    with SchemaRegistry(console.api("/schemas")["url"]) as schemas:
        schemas.delete("pots-value")
    admin.delete_topics(["pots"])


def test_records_are_produced_in_every_format(console: ConsoleProcess, admin: Admin) -> None:
    admin.create_topic("written", partitions=1)
    for body in (
        {"value": "plain"},
        {"value": "cafe", "value_format": "hex", "key": "6b", "key_format": "hex"},
        {"value_format": "null", "key": "gone", "headers": {"why": "old"}},
    ):
        assert console.post_json("/topics/written/records", body).status == 200
    with SchemaRegistry(console.api("/schemas")["url"]) as schemas:
        schemas.register("written-value", TEA)
    avro = {"value": '{"kind": "black"}', "value_format": "avro"}
    done = console.post_json("/topics/written/records", avro).json
    assert (done["done"], done["partition"], done["offset"]) == ("record-sent", 0, 3)
    found = console.api("/topics/written/records")["records"]
    assert [each["value"]["format"] for each in found] == ["text", "hex", "null", "avro"]
    assert [each["key"]["text"] for each in found] == ["", "k", "gone", ""]
    with SchemaRegistry(console.api("/schemas")["url"]) as schemas:
        schemas.register("written-key", JSON_TEA, schema_type="JSON")
    typed = {"key": '{"kind":"black"}', "key_format": "json-schema", "value": "x"}
    assert console.post_json("/topics/written/records", typed).status == 200
    last = console.api("/topics/written/records?start=oldest")["records"][-1]
    assert (last["key"]["format"], json.loads(last["key"]["text"])) == ("json", {"kind": "black"})
    typed = {**typed, "key": '{"kind":3}'}
    assert console.post_json("/topics/written/records", typed).status == 400
    for body in ({"value": "{", "value_format": "json"}, {"value": "x", "value_format": "hex"}):
        assert console.post_json("/topics/written/records", body).status == 400


def test_offset_reset_applies_exactly_the_preview(console: ConsoleProcess, admin: Admin) -> None:
    plan = console.api("/groups/drinkers/reset?topic=tea&to=latest")
    assert [(each["before"], each["after"]) for each in plan["rows"]] == [
        (4, 10),
        (None, 10),
        (None, 10),
    ]
    place = TopicPartition("tea", 0)
    assert admin.list_group_offsets("drinkers")[place].offset == 4
    page = console.get("/groups/drinkers/reset?topic=tea&to=shift&value=-3").text
    [carried] = [
        str(attributes["value"])
        for tag, attributes in Elements(page).found
        if attributes.get("name") == "plan"
    ]
    assert console.post("/groups/drinkers/reset", {"plan": carried}).status == 303
    assert admin.list_group_offsets("drinkers")[place].offset == 1


def test_deleting_a_group_needs_its_typed_name(console: ConsoleProcess) -> None:
    assert console.post("/groups/doomed/delete", {"confirm": ""}).status == 400
    assert console.post("/groups/doomed/delete", {"confirm": "doomed"}).status == 303
    assert console.get("/groups/doomed").status == 404


def test_get_changes_nothing(console: ConsoleProcess, admin: Admin) -> None:
    assert console.get("/topics/tea/delete?confirm=tea").status == 405
    assert console.get("/groups/drinkers/delete?confirm=drinkers").status == 405
    assert "tea" in admin.list_topics()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
    ids=str,
)
def test_cross_site_changes_are_rejected(
    console: ConsoleProcess, admin: Admin, headers: dict[str, str]
) -> None:
    """Cross-site requests, even with the token; and DNS rebinding."""
    assert console.post("/topics/tea/delete", {"confirm": "tea"}, **headers).status == 403
    assert console.post_json("/topics/tea/delete", {"confirm": "tea"}, **headers).status == 403
    assert "tea" in admin.list_topics()


def test_form_without_the_token_is_rejected(console: ConsoleProcess, admin: Admin) -> None:
    for token in ("", "0" * 64, "é"):
        fields = {"confirm": "tea", "token": token}
        assert console.post("/topics/tea/delete", fields).status == 403
    assert "tea" in admin.list_topics()


def test_json_without_its_content_type_is_rejected(console: ConsoleProcess, admin: Admin) -> None:
    """A form of another site can send JSON as text/plain, but not with JSON's content type."""
    raw = json.dumps({"confirm": "tea"}).encode()
    answer = console.ask("POST", "/api/topics/tea/delete", raw, Content_Type="text/plain")
    assert answer.status == 415
    assert "tea" in admin.list_topics()


def test_unpaired_surrogate_is_rejected(console: ConsoleProcess) -> None:
    answer = console.post_json("/topics/tea/records", {"value": "\ud800"})
    assert answer.status == 400


def test_unknown_host_names_and_cross_site_reads_are_rejected(console: ConsoleProcess) -> None:
    refused = console.get("/api/topics/tea/records", Host="evil.example")
    assert (refused.status, "--host evil.example" in refused.json["error"]) == (403, True)
    background = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert console.get("/api/topics/tea/tail", **background).status == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert console.get("/topics", **link).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/nowhere", 404),
        ("/api/topics/nothing", 404),
        ("/api/topics/tea/records?partition=9", 404),
        ("/api/topics/tea/records/0/x", 400),
        ("/api/topics/tea/records?start=later", 400),
        ("/api/topics/tea/records?start=offset&at=x", 400),
        ("/api/topics/tea/records?start=time&at=soon", 400),
        ("/api/topics/tea/records?limit=100000", 400),
        ("/api/topics/tea/records?before=0", 400),
        ("/api/topics/tea/records?after=0:" + "9" * 30, 400),
        ("/api/topics?page=x", 400),
        ("/api/topics?" + "a=1&" * 200, 400),
        ("/api/topics?a=" + "a" * 40_000, 414),
        ("/api/groups/drinkers/reset?to=offset", 400),
        ("/api/brokers/7", 404),
        ("/api/schemas/nothing", 404),
    ],
)
def test_errors_are_one_line(console: ConsoleProcess, path: str, status: int) -> None:
    answer = console.get(path)
    assert answer.status == status
    assert len(answer.json["error"].splitlines()) == 1


def test_body_size_is_limited(console: ConsoleProcess) -> None:
    assert console.post("/topics", {"name": "x" * 2_100_000}).status == 413


def test_index_lists_every_path(console: ConsoleProcess) -> None:
    paths = [(each["method"], each["path"]) for each in console.api("")]
    assert ("GET", "/api/topics/{name}/records/{name}/{name}") in paths
    assert ("POST", "/api/groups/{name}/reset") in paths
    assert len(set(paths)) == len(paths)


def test_assets_are_cached_until_they_change(console: ConsoleProcess) -> None:
    attributes = [each for tag, each in Elements(console.get("/").text).found if tag == "link"]
    sheet = next(str(each["href"]) for each in attributes if each["rel"] == "stylesheet")
    answer = console.get(sheet)
    assert "immutable" in answer.headers["cache-control"]
    assert console.get(sheet, If_None_Match=answer.headers["etag"]).status == 304
    assert console.get("/assets/old/console.css").headers["cache-control"] == "no-cache"
    for path in ("/assets/x/../../serving.py", "/assets/x/nothing.css", "/assets/console.css"):
        assert console.get(path).status == 404


class Tail:
    """A client of server-sent events."""

    def __init__(self, console: ConsoleProcess, path: str) -> None:
        place = urlsplit(console.url).netloc
        self.connection = http.client.HTTPConnection(place, timeout=TIMEOUT_S)
        self.connection.request("GET", f"/api{path}")
        self.response = self.connection.getresponse()

    def until(self, name: str) -> dict[str, Any]:
        """The data of the next event of this type."""
        while True:
            line = self.response.readline()
            assert line, "the tail has ended"
            if line == f"event: {name}\n".encode():
                data = self.response.readline().decode().removeprefix("data: ")
                found: dict[str, Any] = json.loads(data)
                return found


def test_live_tail_shows_new_records(console: ConsoleProcess, broker: EmbeddedBroker) -> None:
    tail = Tail(console, "/topics/hostile/tail?filter=alert")
    tail.until("ready")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("hostile", b"not this one").result(TIMEOUT_S)
        producer.send("hostile", HOSTILE.encode()).result(TIMEOUT_S)
    [record] = tail.until("records")["records"]
    assert record["value"]["text"] == HOSTILE
    tail.connection.close()


def test_number_of_live_tails_is_limited_and_slots_are_released(
    console: ConsoleProcess,
) -> None:
    tails = [Tail(console, "/topics/empty/tail") for _ in range(8)]
    for tail in tails:
        tail.until("ready")
    refused = console.get("/api/topics/empty/tail")
    assert (refused.status, "8 live tails" in refused.json["error"]) == (503, True)
    for tail in tails:
        tail.response.close()
        tail.connection.close()
    # The console notices closed connections when it sends the next event.
    while (last := Tail(console, "/topics/empty/tail")).response.status == 503:
        last.connection.close()
    last.connection.close()


def test_read_only_console_rejects_changes(broker: EmbeddedBroker, admin: Admin) -> None:
    with ConsoleProcess(broker.bootstrap_servers, "--read-only") as console:
        assert "read only" in console.ready_line
        for path in ("/topics", "/topics/tea", "/topics/tea/records", "/groups/drinkers"):
            page = console.get(path)
            assert page.status == 200
            assert 'method="post"' not in page.text
        refused = console.post_json("/topics/tea/delete", {"confirm": "tea"})
        assert (refused.status, "--changes" in refused.json["error"]) == (403, True)
        assert console.get("/schemas").status == 404
    assert "tea" in admin.list_topics()


def test_console_starts_without_a_cluster_and_says_what_to_do() -> None:
    with ConsoleProcess("127.0.0.1:1") as console:
        page = console.get("/")
        assert page.status == 503
        for part in ("No broker answers", "127.0.0.1:1", "--bootstrap HOST:PORT"):
            assert part in page.text
        assert console.get("/api/overview").status == 503
        assert (console.get("/healthz").status, console.get("/healthz").text) == (200, "ok\n")
        assert console.get("/healthz", Host="evil.example").status == 403


@pytest.mark.parametrize(
    "arguments",
    [
        ["--listen", "nowhere"],
        ["--bootstrap", "x", "-o", "no.such.setting=1"],
        ["--metrics", "x"],
        ["--registry", "tea"],
    ],
    ids=str,
)
def test_startup_error_is_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-c", "from headwater.cli.entry import main; main()"]
    done = subprocess.run(
        [*command, "console", "start", "--listen", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("headwater: ")
