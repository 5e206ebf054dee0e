"""The pytest plugin, tested in a nested pytest run."""

import subprocess
import sys
from pathlib import Path


def pytest_on(folder: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_fixtures_need_no_import(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pathlib\n"
        "def test_one(headwater_broker):\n"
        "    assert headwater_broker.is_running\n"
        "    pathlib.Path('address').write_text(headwater_broker.bootstrap_servers)\n"
        "def test_two(headwater_broker):\n"
        "    assert pathlib.Path('address').read_text() == headwater_broker.bootstrap_servers\n",
    )
    assert "2 passed" in run.stdout, run.stdout


def test_settings_can_be_overridden_and_invalid_ones_are_reported(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def headwater_settings():\n"
        "    return {'num.partitons': 3}\n"
        "def test_one(headwater_broker):\n"
        "    pass\n",
    )
    assert run.returncode == 1
    assert "did you mean num.partitions?" in run.stdout
    assert "Traceback" not in run.stdout


def test_a_run_without_the_fixtures_starts_no_broker(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import sys\n"
        "def test_one():\n"
        "    rooms = [name for name in sys.modules if name.startswith('headwater.')]\n"
        "    assert rooms == ['headwater.testing', 'headwater.testing.pytest_plugin'], rooms\n",
    )
    assert "1 passed" in run.stdout, run.stdout


def test_each_test_gets_its_own_topic(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import confluent_kafka\n"
        "from confluent_kafka.admin import AdminClient\n"
        "seen = []\n"
        "def produced(kafka_broker, kafka_topic):\n"
        "    where = {'bootstrap.servers': kafka_broker.bootstrap_servers}\n"
        "    producer = confluent_kafka.Producer(where)\n"
        "    producer.produce(kafka_topic, b'green')\n"
        "    assert producer.flush(30) == 0\n"
        "    consumer = confluent_kafka.Consumer({**where, 'group.id': kafka_topic,"
        " 'auto.offset.reset': 'earliest'})\n"
        "    consumer.subscribe([kafka_topic])\n"
        "    message = consumer.poll(30)\n"
        "    consumer.close()\n"
        "    return message.offset(), message.value()\n"
        "def test_one(kafka_broker, kafka_topic):\n"
        "    seen.append(kafka_topic)\n"
        "    assert produced(kafka_broker, kafka_topic) == (0, b'green')\n"
        "def test_two(kafka_broker, kafka_topic, headwater_broker):\n"
        "    assert kafka_topic not in seen\n"
        "    assert kafka_broker is headwater_broker\n"
        "    assert produced(kafka_broker, kafka_topic) == (0, b'green')\n"
        "    where = {'bootstrap.servers': kafka_broker.bootstrap_servers}\n"
        "    known = AdminClient(where).list_topics(timeout=30).topics\n"
        "    assert kafka_topic in known and seen[0] not in known\n",
    )
    assert "2 passed" in run.stdout, run.stdout


def test_the_marker_shapes_the_topic(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pytest\n"
        "from headwater.client import Admin, ConfigResource\n"
        "@pytest.mark.kafka_topic(partitions=3, configs={'retention.ms': 1000})\n"
        "def test_one(kafka_broker, kafka_topic):\n"
        "    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:\n"
        "        assert len(admin.describe_topics([kafka_topic])[kafka_topic].partitions) == 3\n"
        "        resource = ConfigResource.topic(kafka_topic)\n"
        "        configs = admin.describe_configs([resource])[resource]\n"
        "        assert configs['retention.ms'].value == '1000'\n"
        "        admin.delete_topics([kafka_topic])\n"
        "@pytest.mark.kafka_topic(partitons=3)\n"
        "def test_two(kafka_topic):\n"
        "    pass\n",
        "--strict-markers",
    )
    assert "1 passed, 1 error" in run.stdout, run.stdout
    assert "takes partitions= and configs=, not ['partitons']" in run.stdout


def test_a_broker_stopped_by_a_test_is_restarted_for_the_next(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "def test_one(kafka_broker, kafka_topic):\n"
        "    kafka_broker.kill()\n"
        "def test_two(kafka_broker, kafka_topic):\n"
        "    assert kafka_broker.is_running\n",
    )
    assert "2 passed" in run.stdout, run.stdout


def test_fixtures_use_the_client_settings_for_a_secured_broker(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import pytest\n"
        "from headwater.client.schema_registry import SchemaRegistry\n"
        "MODULE = 'org.apache.kafka.common.security.plain.PlainLoginModule'\n"
        "@pytest.fixture(scope='session')\n"
        "def headwater_settings():\n"
        "    users = f'{MODULE} required user_alice=\"secret\";'\n"
        "    return {\n"
        "        'listeners': 'SASL_PLAINTEXT://127.0.0.1:0',\n"
        "        'sasl.enabled.mechanisms': 'PLAIN',\n"
        "        'listener.name.sasl_plaintext.plain.sasl.jaas.config': users,\n"
        "    }\n"
        "@pytest.fixture(scope='session')\n"
        "def headwater_client_settings():\n"
        "    return {\n"
        "        'security.protocol': 'SASL_PLAINTEXT',\n"
        "        'sasl.mechanism': 'PLAIN',\n"
        "        'sasl.username': 'alice',\n"
        "        'sasl.password': 'secret',\n"
        "    }\n"
        "def test_one(kafka_topic, schema_registry):\n"
        "    with SchemaRegistry(schema_registry.url) as registry:\n"
        "        assert registry.register(kafka_topic, '\"string\"') == 1\n",
    )
    assert "1 passed" in run.stdout, run.stdout


def test_a_failed_comparison_of_rows_is_shown_as_a_table(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "from headwater.testing.pipelines.sink_rows import SinkRow, SinkRows\n"
        "def test_one():\n"
        "    found = SinkRows([SinkRow({'id': 1, 'name': 'ben'})], name='orders')\n"
        "    assert [{'id': 1, 'name': 'bob'}] == found\n",
    )
    assert run.returncode == 1
    shown = [line.removeprefix("E").strip() for line in run.stdout.splitlines() if line[:1] == "E"]
    assert shown[0].endswith("rows of orders are not the expected ones")
    assert shown[1:6] == [
        "1 row missing, 1 row not expected, 0 equal",
        "id  name",
        "- 1   'bob'",
        "+ 1   'ben'",
        "^^^^^",
    ]


def test_fixtures_of_the_broker_import_no_spark(tmp_path: Path) -> None:
    run = pytest_on(
        tmp_path,
        "import sys\n"
        "def test_one(kafka_broker, kafka_topic):\n"
        "    assert not {'pyspark', 'headwater.testing.pipelines'} & sys.modules.keys()\n",
    )
    assert "1 passed" in run.stdout, run.stdout
