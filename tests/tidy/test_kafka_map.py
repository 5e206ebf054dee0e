"""docs/internals/kafka-map.md names modules that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+?) \| `([a-z_/]+\.py)` \|", re.MULTILINE)


def test_every_module_of_the_kafka_map_exists() -> None:
    rows = ROW.findall((ROOT / "docs/internals/kafka-map.md").read_text("utf-8"))
    assert len(rows) >= 150
    missing = [path for _, path in rows if not (ROOT / "src/headwater" / path).is_file()]
    assert missing == []
