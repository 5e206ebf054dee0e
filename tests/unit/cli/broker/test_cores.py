"""`headwater start --cores`: the settings of each broker, and directories that are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.broker.cores import (
    CoreBroker,
    core_brokers,
    label_json,
    label_text,
    port_step,
    run_on_cores,
)
from headwater.cli.broker.start import CANNOT_START, start
from headwater.common.exceptions import InvalidSetting


def numbered_ports(_: str, wanted: int) -> list[int]:
    return list(range(40_000, 40_000 + 7 * wanted, 7))


def brokers(cores: int = 3, **texts: str) -> list[CoreBroker]:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    return core_brokers({"log.dirs": "/data", **named}, cores, free_ports=numbered_ports)


def test_brokers_have_consecutive_ids_ports_and_directories() -> None:
    found = brokers(listeners="PLAINTEXT://127.0.0.1:9092", node_id="5")
    assert [each.node_id for each in found] == [5, 6, 7]
    assert [each.texts["listeners"] for each in found] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in (9092, 9093, 9094)
    ]
    assert [each.texts["log.dirs"] for each in found] == [f"/data/broker-{n}" for n in (5, 6, 7)]
    assert all(each.texts["broker.rack"] for each in found)


def test_every_log_directory_has_a_directory_of_each_broker() -> None:
    found = brokers(2, log_dirs="/a, /b")
    assert found[1].directories == (Path("/a/broker-1"), Path("/b/broker-1"))


def test_ports_of_several_listeners_and_of_metrics_do_not_collide() -> None:
    found = brokers(
        2,
        listeners="PLAINTEXT://:9092,SSL://:9093",
        advertised_listeners="PLAINTEXT://kafka:19092,SSL://kafka:19093",
        headwater_metrics_listener="127.0.0.1:9094",
    )
    assert found[1].texts["listeners"] == "PLAINTEXT://:9095,SSL://:9096"
    assert found[1].texts["advertised.listeners"] == "PLAINTEXT://kafka:19095,SSL://kafka:19096"
    assert found[1].texts["headwater.metrics.listener"] == "127.0.0.1:9097"


def test_port_zero_is_chosen_once_so_that_restarted_brokers_keep_their_ports() -> None:
    found = brokers(listeners="PLAINTEXT://127.0.0.1:0")
    assert [each.listeners[0].port for each in found] == [40_000, 40_007, 40_014]


@pytest.mark.parametrize(
    ("cores", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (8, 3, 2)]
)
def test_internal_topics_can_be_created(cores: int, replicas: int, min_isr: int) -> None:
    texts = brokers(cores, listeners="PLAINTEXT://:9092")[0].texts
    assert texts["offsets.topic.replication.factor"] == str(replicas)
    assert texts["transaction.state.log.replication.factor"] == str(replicas)
    assert texts["transaction.state.log.min.isr"] == str(min_isr)


def test_given_settings_win_over_those_for_a_cluster() -> None:
    texts = brokers(2, broker_rack="r1", offsets_topic_replication_factor="1")[1].texts
    assert (texts["broker.rack"], texts["offsets.topic.replication.factor"]) == ("r1", "1")


@pytest.mark.parametrize("name", ["process.roles", "zookeeper.connect", "metadata.log.dir"])
def test_settings_of_another_quorum_are_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"leave out {name}"):
        core_brokers({name: "x"}, 2, free_ports=numbered_ports)


def test_authorizer_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"does not support authorizer\.class\.name"):
        brokers(authorizer_class_name="StandardAuthorizer")


@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=4, unique=True), st.integers(1, 16))
def test_no_port_is_used_twice(ports: list[int], brokers: int) -> None:
    step = port_step(ports, brokers)
    used = [port + place * step for port in ports for place in range(brokers)]
    assert len(set(used)) == len(used)


def test_ports_beyond_the_last_one_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="no ports for 4 brokers"):
        port_step([65_533], 4)


def test_data_of_more_brokers_is_not_left_out(tmp_path: Path) -> None:
    for node_id in range(4):
        (tmp_path / f"broker-{node_id}").mkdir()
    texts = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:9092"}
    with pytest.raises(
        InvalidSetting, match=r"brokers 0, 1, 2, 3, and --cores 2 would start only 0, 1"
    ):
        run_on_cores(texts, 2, options=[], log_format="text")


def test_data_of_a_single_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    texts = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:9092"}
    with pytest.raises(InvalidSetting, match="data of a single broker; start it without --cores"):
        run_on_cores(texts, 2, options=[], log_format="text")


def test_data_of_several_brokers_is_refused_without_cores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quorum.json").write_text("{}")

    def run(*_: object) -> None:
        raise AssertionError("it must not start")

    assert start(["--data", str(tmp_path), "--listen", "127.0.0.1:0"], run) == CANNOT_START
    assert "start it with --cores N" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "two", "1000"])
def test_number_of_cores_is_checked(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        start(["--cores", text], lambda *_: None)
    assert "must be a number from 1 to 256" in capsys.readouterr().err


def test_lines_are_labelled_with_the_broker() -> None:
    assert label_text("broker-1", b"INFO x") == b"[broker-1] INFO x"
    line = label_json("broker-1", b'{"ts": "now", "message": "x"}')
    assert json.loads(line) == {"process": "broker-1", "ts": "now", "message": "x"}
    assert json.loads(label_json("broker-1", b'Fatal "error"\xff')) == {
        "process": "broker-1",
        "message": 'Fatal "error"\ufffd',
    }
