"""The import contracts hold, and each of them really catches its violation.

A contract that forbids a misspelt module would pass for ever; so each one is shown planted
violations in a copy of the package, and must name itself.
"""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = "Layers go one way"
PURE = "common, records, schemas and protocol are pure"
DECIDERS = "metadata, controller, replication and coordinator decide without I/O"
PURE_RAFT = "raft is pure"
STORAGE_SHELLS = "Only the shells of storage do I/O"
GIVEN = "Storage receives its disk and its executor"
PURE_CLIENTS = "The decisions of clients are pure"
PURE_REGISTRY = "The decisions of the schema registry are pure"
PURE_CONSOLE = "The pages and views of the console are pure"
PURE_REST = "The bodies and errors of the REST API are pure"
PURE_CDC = "The decoder and the envelopes of change data capture are pure"
PURE_CONNECT_WORKER = "The decisions and records of a Connect worker are pure"
PURE_SQL = "Predicates, names, types and errors of queries are pure"
PURE_MCP = "The answers and explanations of the MCP server are pure"
SOCKETS = "Only network has sockets"
LIGHT_BROKER = "A broker never loads Arrow, Spark or the terminal"
ARROW = "In the lower layers only arrow_columns and arrow_values import Arrow"
SPARK = "Only spark and the layers on it import Spark"
ZOOKEEPER = "Only metadata_store.zookeeper imports a ZooKeeper client"


class Plant(NamedTuple):
    """The contract that must object, and the modules with the line that is added to each."""

    contract: str
    lines: dict[str, str]

    def __str__(self) -> str:
        return "; ".join(f"{module}: {line}" for module, line in self.lines.items())


VIOLATIONS = [
    Plant(LAYERS, {"common.ids": "import headwater.records.batch_header"}),
    Plant(LAYERS, {"storage.io.disk": "import headwater.network"}),
    Plant(LAYERS, {"attic": "shelf = 1"}),
    Plant(PURE, {"schemas.avro.schema": "import os"}),
    Plant(LAYERS, {"metadata.cluster_image": "import headwater.controller.controller"}),
    Plant(PURE, {"common.ids": "import time"}),
    Plant(PURE, {"records.batch_header": "from os import path"}),
    Plant(PURE, {"records.batch_header": "def late() -> None:\n    import random"}),
    Plant(PURE, {"protocol.headers": "import socket"}),
    Plant(DECIDERS, {"metadata.cluster_image": "import time"}),
    Plant(DECIDERS, {"controller.controller": "import random"}),
    Plant(DECIDERS, {"replication.partition": "import asyncio"}),
    Plant(DECIDERS, {"coordinator.group.group": "import threading"}),
    Plant(LAYERS, {"raft.quorum_state": "import headwater.metadata.cluster_image"}),
    Plant(PURE_RAFT, {"raft.quorum_state": "import time"}),
    Plant(PURE_RAFT, {"raft.raft_core": "import headwater.storage.io.disk"}),
    Plant(STORAGE_SHELLS, {"storage.io.disk": "import mmap"}),
    Plant(STORAGE_SHELLS, {"storage.log.retention": "import time"}),
    Plant(STORAGE_SHELLS, {"storage.io.os_disk": "import subprocess"}),
    Plant(GIVEN, {"storage.log.retention": "from headwater.storage.io.os_disk import OsDisk"}),
    Plant(PURE_CLIENTS, {"client.producer.transactions.partition_sequences": "import threading"}),
    Plant(PURE_CLIENTS, {"client.network.exponential_backoff": "import random"}),
    Plant(PURE_CLIENTS, {"client.consumer.group.classic_member": "import time"}),
    Plant(PURE_REGISTRY, {"registry.commands": "import time"}),
    Plant(PURE_REGISTRY, {"registry.registry_state": "import headwater.client.aio"}),
    Plant(PURE_CONSOLE, {"console.pages.records": "import starlette.requests"}),
    Plant(PURE_CONSOLE, {"console.views.record_pages": "import time"}),
    Plant(PURE_REST, {"rest.json_bodies": "import asyncio"}),
    Plant(PURE_SQL, {"sql.scan_predicates": "import duckdb"}),
    Plant(PURE_MCP, {"mcp.group_lag": "import time"}),
    Plant(PURE_CDC, {"connect.postgresql_cdc.pgoutput": "import time"}),
    Plant(PURE_CONNECT_WORKER, {"connect.runtime.herder": "import asyncio"}),
    Plant(SOCKETS, {"client.consumer": "import socket"}),
    Plant(SOCKETS, {"broker.node.node": "import selectors"}),
    Plant(LIGHT_BROKER, {"broker.node.node": "import pyarrow.compute"}),
    Plant(
        LIGHT_BROKER,
        {
            "records.arrow_columns": "import pyarrow",
            "storage.keys": "import headwater.records.arrow_columns",
        },
    ),
    Plant(LIGHT_BROKER, {"storage.progress": "import rich.progress"}),
    Plant(ARROW, {"records.batch_header": "import pyarrow"}),
    Plant(SPARK, {"cli.main": "import pyspark.sql"}),
    Plant(ZOOKEEPER, {"broker.node.node": "from kazoo.client import KazooClient"}),
]

ALLOWED = {
    "broker.node.node": "import headwater.network.acceptor\nimport headwater.storage.io.os_disk",
    "cli.main": "import headwater.spark.more",
    "client.batches": "import pyarrow",
    "metadata_store.zookeeper": "import kazoo",
    "network.acceptor": "import socket",
    "spark.more": "import pyspark",
    "records.arrow_columns": "import pyarrow",
    "storage.io.disk": "from pathlib import PurePath",
    "storage.io.os_disk": "import shutil",
}


@pytest.mark.parametrize("plant", VIOLATIONS, ids=str)
def test_a_planted_violation_is_found_by_its_contract(plant: Plant, tmp_path: Path) -> None:
    outcome = lint_a_copy_with(plant.lines, tmp_path)
    assert outcome.returncode == 1, outcome.stdout
    assert f"{plant.contract} BROKEN" in outcome.stdout


@pytest.mark.parametrize("lines", [{}, ALLOWED], ids=["as it is", "with more of what is allowed"])
def test_what_the_house_allows_is_kept(lines: dict[str, str], tmp_path: Path) -> None:
    outcome = lint_a_copy_with(lines, tmp_path)
    assert outcome.returncode == 0, outcome.stdout


def test_every_contract_has_a_planted_violation() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", encoding="utf-8")
    names = {config[section]["name"] for section in config if section.startswith("importlinter:")}
    assert names == {plant.contract for plant in VIOLATIONS}


def lint_a_copy_with(lines: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    package = folder / "headwater"
    shutil.copytree(ROOT / "src/headwater", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    for module, line in lines.items():
        path = package.joinpath(*module.split(".")).with_suffix(".py")
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(f"{before}\n{line}\n", encoding="utf-8")
    # The copy must come before the installed package.
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
