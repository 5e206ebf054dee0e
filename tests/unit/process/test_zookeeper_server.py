"""Configuration and files of a ZooKeeper server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.common.exceptions import ServerUnavailable
from headwater.process import zookeeper_jars
from headwater.process.private_files import make_private
from headwater.process.zookeeper_server import Server, ServerPlan, config_text, last_lines, planned


def test_single_server_has_no_ensemble_and_no_admin_port(tmp_path: Path) -> None:
    [plan] = planned(tmp_path, "127.0.0.1", 2181, 1)
    lines = config_text([plan], 0, tick_ms=200).splitlines()
    assert "tickTime=200" in lines
    assert "clientPort=2181" in lines
    assert "admin.enableServer=false" in lines
    assert not any(line.startswith("server.") for line in lines)


def test_servers_of_an_ensemble_list_each_other(tmp_path: Path) -> None:
    plans = planned(tmp_path, "127.0.0.1", 2181, 3)
    assert [plan.address for plan in plans] == [f"127.0.0.1:{port}" for port in (2181, 2182, 2183)]
    members = [
        [line for line in config_text(plans, place).splitlines() if line.startswith("server.")]
        for place in range(3)
    ]
    assert members[0] == members[1] == members[2]
    assert len(set(members[0])) == 3
    assert len({plan.folder for plan in plans}) == 3


def test_port_0_takes_distinct_free_ports(tmp_path: Path) -> None:
    plans: list[ServerPlan] = planned(tmp_path, "127.0.0.1", 0, 3)
    assert len({plan.port for plan in plans}) == 3


def test_missing_jars_are_reported_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(zookeeper_jars.JARS_VARIABLE, str(tmp_path))
    with pytest.raises(ServerUnavailable, match="HEADWATER_ZOOKEEPER_JARS"):
        zookeeper_jars.find_class_path()
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    assert zookeeper_jars.find_class_path() == f"{tmp_path}/*"
    monkeypatch.delenv(zookeeper_jars.JARS_VARIABLE)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ServerUnavailable, match=r"headwater\[cluster\]"):
        zookeeper_jars.find_class_path()


@pytest.fixture
def lax_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake server that writes files like ZooKeeper and exits."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21"\n')
    program = home / "bin/java"
    program.write_text(
        "#!/bin/sh\n"
        "for config; do :; done\n"
        'cd "$(dirname "$config")" && mkdir -p version-2 && echo scram > version-2/log.1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "zookeeper-3.9.5.jar").touch()
    monkeypatch.setenv(zookeeper_jars.JARS_VARIABLE, str(jars))


def modes(folder: Path) -> dict[str, int]:
    found = {each: each.stat().st_mode & 0o777 for each in (folder, *folder.rglob("*"))}
    return {str(each.relative_to(folder)): mode for each, mode in found.items()}


PRIVATE = {
    ".": 0o700,
    "zoo.cfg": 0o600,
    "myid": 0o600,
    "server.log": 0o600,
    "version-2": 0o700,
    "version-2/log.1": 0o600,
}


def run_until_exit(folder: Path) -> None:
    server = Server(planned(folder, "127.0.0.1", 2181, 1), 0)
    while server.is_running:
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    server.stop()


@pytest.mark.usefixtures("lax_umask", "fake_java")
def test_server_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    run_until_exit(tmp_path / "data")
    assert modes(tmp_path / "data") == PRIVATE


@pytest.mark.usefixtures("lax_umask", "fake_java")
def test_existing_directory_is_restricted_and_nothing_else_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "version-2").mkdir(parents=True)
    for name in ("zoo.cfg", "myid", "server.log", "version-2/log.1", "version-2/snapshot.0"):
        (folder / name).write_text("scram")
    (folder / "mine.txt").write_text("mine")
    (folder / "version-2/link").symlink_to(folder / "mine.txt")
    run_until_exit(folder)
    found = modes(folder)
    assert found.pop("mine.txt") == 0o644
    assert found.pop("version-2/link") == 0o644
    assert found == {**PRIVATE, "version-2/snapshot.0": 0o600}


def test_shared_directory_keeps_its_permissions(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_private(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_the_end_of_a_log_has_no_stack_frames() -> None:
    log = (
        "ERROR Unexpected exception, exiting abnormally\n"
        "java.net.BindException: Address already in use\n"
        "\tat java.base/sun.nio.ch.Net.bind0(Native Method)\n"
        "\tat java.base/sun.nio.ch.Net.bind(Net.java:555)\n"
        "\n"
    )
    assert last_lines(log) == (
        "ERROR Unexpected exception, exiting abnormally / "
        "java.net.BindException: Address already in use"
    )
    assert last_lines("\n") == "nothing"
