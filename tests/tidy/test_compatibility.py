"""The page that says where Headwater and Apache Kafka differ, and the table that the tests use."""

import re
from pathlib import Path

from tests.peers.intended import INTENDED
from tests.peers.scenarios.catalog import SCENARIOS

ROOT = Path(__file__).parents[2]


def test_every_intended_difference_is_explained_on_its_page_and_nothing_else_is() -> None:
    page = (ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^## (.*)$", page, re.MULTILINE))
    assert {each.reason for each in INTENDED} == headings


def test_every_intended_difference_belongs_to_a_scenario() -> None:
    lost = [each for each in INTENDED if not any(each.covers(name) for name in SCENARIOS)]
    assert lost == []
