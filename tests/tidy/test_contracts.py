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

ROOMS = "Rooms stack one way"
PURE_ROOMS = "model, records and wire touch nothing of the world"
STORAGE_SHELLS = "Only the shells of storage touch the world"
GIVEN = "The rest of storage is given its disk and its threads"
PURE_CLIENTS = "The rules of clients touch nothing of the world"
PURE_REGISTRY = "The rules of the schema registry touch nothing of the world"
PURE_CONSOLE = "The pages and rules of the web console touch nothing of the world"
SOCKETS = "Only net has sockets"
LIGHT_BROKER = "A broker never loads Arrow, Spark or the terminal"
ARROW = "In the lower rooms only columns and plain values of records know Arrow"
SPARK = "Only pipeline knows Spark"
ZOOKEEPER = "Only cluster.zookeeper knows ZooKeeper"


class Plant(NamedTuple):
    """The contract that must object, and the modules with the line that is added to each."""

    contract: str
    lines: dict[str, str]

    def __str__(self) -> str:
        return "; ".join(f"{module}: {line}" for module, line in self.lines.items())


VIOLATIONS = [
    Plant(ROOMS, {"model.ids": "import headwater.records.header"}),
    Plant(ROOMS, {"storage.disk": "import headwater.net"}),
    Plant(ROOMS, {"attic": "shelf = 1"}),
    Plant(PURE_ROOMS, {"model.ids": "import time"}),
    Plant(PURE_ROOMS, {"records.header": "from os import path"}),
    Plant(PURE_ROOMS, {"records.header": "def late() -> None:\n    import random"}),
    Plant(PURE_ROOMS, {"wire.headers": "import socket"}),
    Plant(STORAGE_SHELLS, {"storage.disk": "import mmap"}),
    Plant(STORAGE_SHELLS, {"storage.retention": "import time"}),
    Plant(STORAGE_SHELLS, {"storage.os_disk": "import subprocess"}),
    Plant(GIVEN, {"storage.retention": "from headwater.storage.os_disk import OsDisk"}),
    Plant(PURE_CLIENTS, {"client.producer.sequencing": "import threading"}),
    Plant(PURE_CLIENTS, {"client.backoff": "import random"}),
    Plant(PURE_CLIENTS, {"client.consumer.classic_member": "import time"}),
    Plant(PURE_REGISTRY, {"web.registry.commands": "import time"}),
    Plant(PURE_REGISTRY, {"web.registry.state": "import headwater.client.aio"}),
    Plant(PURE_CONSOLE, {"web.console.pages.records": "import starlette.requests"}),
    Plant(PURE_CONSOLE, {"web.console.record_pages": "import time"}),
    Plant(SOCKETS, {"client.consumer": "import socket"}),
    Plant(SOCKETS, {"broker.node": "import selectors"}),
    Plant(LIGHT_BROKER, {"broker.node": "import pyarrow.compute"}),
    Plant(
        LIGHT_BROKER,
        {
            "records.columns": "import pyarrow",
            "storage.keys": "import headwater.records.columns",
        },
    ),
    Plant(LIGHT_BROKER, {"storage.progress": "import rich.progress"}),
    Plant(ARROW, {"records.header": "import pyarrow"}),
    Plant(SPARK, {"cli.main": "import pyspark.sql"}),
    Plant(ZOOKEEPER, {"broker.node": "from kazoo.client import KazooClient"}),
]

ALLOWED = {
    "broker.node": "import headwater.net.listener\nimport headwater.storage.os_disk",
    "cli.main": "import headwater.pipeline.source",
    "client.batches": "import pyarrow",
    "cluster.images": "import datetime",
    "cluster.zookeeper": "import kazoo",
    "net.listener": "import socket",
    "pipeline.source": "import pyspark",
    "records.columns": "import pyarrow",
    "storage.disk": "from pathlib import PurePath",
    "storage.os_disk": "import shutil",
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
