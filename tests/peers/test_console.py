"""The web console with Apache Kafka."""

import json

from headwater.client import Admin, Consumer, Producer, TopicPartition
from tests.console_process import TIMEOUT_S, ConsoleProcess
from tests.peers.apache_kafka import ApacheKafka

PAGES = (
    "/",
    "/topics?internal=1",
    "/topics/console-tea",
    "/topics/console-tea/configs",
    "/topics/console-tea/records",
    "/topics/console-tea/records/0/0",
    "/groups",
    "/groups/console-drinkers",
    "/groups/console-drinkers/reset?to=latest",
    "/transactions",
)


def test_console_shows_and_changes_a_cluster_of_apache_kafka(apache_kafka: ApacheKafka) -> None:
    servers = apache_kafka.bootstrap_servers
    place = TopicPartition("console-tea", 0)
    with ConsoleProcess(servers) as console, Admin(bootstrap_servers=servers) as admin:
        made = console.post("/topics", {"name": "console-tea", "partitions": "1"})
        assert made.status == 303, made.text
        for number in range(3):
            body = {"value": json.dumps({"cup": number}), "key": str(number)}
            assert console.post_json("/topics/console-tea/records", body).status == 200
        with Producer(bootstrap_servers=servers, transactional_id="console-shop") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("console-tea", b"paid").result(TIMEOUT_S)
            producer.commit_transaction()
        with Consumer(
            bootstrap_servers=servers, group_id="console-drinkers", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["console-tea"])
            assert consumer.poll(TIMEOUT_S)
            consumer.commit()
        for path in PAGES:
            page = console.get(path)
            assert page.status == 200, f"{path}: {page.text}"
        records = console.api("/topics/console-tea/records")["records"]
        assert [each["value"]["text"] for each in records][-1] == "paid"
        assert len(records) == 4
        plan = "console-tea 0 1"
        assert console.post("/groups/console-drinkers/reset", {"plan": plan}).status == 303
        assert admin.list_group_offsets("console-drinkers")[place].offset == 1
        broker = console.api("/overview")["brokers"][0]["id"]
        assert console.get(f"/brokers/{broker}").status == 200
        assert console.post("/topics/console-tea/delete", {"confirm": "console-tea"}).status == 303
