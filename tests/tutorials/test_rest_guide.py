"""The guide about the REST API runs as written, and names what exists."""

import re
from pathlib import Path

from headwater.rest.rest_settings import NAMES
from headwater.testing import EmbeddedBroker
from tests.rest_server import RestServer
from tests.tutorials.test_tutorials import Reader

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "rest.md"


def test_commands_of_the_guide_run_as_written(tmp_path: Path) -> None:
    with (
        EmbeddedBroker({"group.initial.rebalance.delay.ms": 0}) as broker,
        RestServer(broker.bootstrap_servers) as rest,
    ):
        ready = f"headwater rest ready on {rest.url} (brokers localhost:9092)"
        replaced = {"localhost:8082": rest.address, "127.0.0.1:8082": rest.address}
        reader = Reader(tmp_path, replaced, printed=ready)
        reader.read("guides/rest.md")
    assert len(reader.run_commands) == 9


def test_every_setting_is_in_the_guide() -> None:
    documented = set(re.findall(r"`([a-z.]+)`", GUIDE.read_text(encoding="utf-8")))
    assert documented >= NAMES
