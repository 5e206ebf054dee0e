"""Write a pipeline and its test from a template."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from headwater.common.exceptions import HeadwaterError

TEMPLATES: Final = {
    "filter": "select and change records of a topic, with dead letters",
    "windowed-aggregate": "count and average by windows of event time, with a watermark",
    "join": "join two streams within an interval of time",
    "cdc-to-lake": "write a change feed to Parquet, and its latest rows to a compacted topic",
    "dead-letter-replay": "repair dead letters and send them back, once each",
}
"""Templates by name, with a description."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MARK: Final = "{{name}}"


class NotWritten(HeadwaterError):
    """The new pipeline was not written."""


def new_pipeline(name: str, template: str, folder: Path) -> list[Path]:
    """Write `NAME.yaml` and `test_NAME.py`. Raises `NotWritten` if either exists."""
    if _NAME.fullmatch(name) is None:
        rule = "a letter, then letters, digits, - and _"
        raise NotWritten(f"{name!r} is no name of a pipeline: it has {rule}")
    if template not in TEMPLATES:
        raise NotWritten(f"there is no template {template}; there are {', '.join(TEMPLATES)}")
    stored = files(__package__)
    texts = {
        folder / f"{name}.yaml": stored / f"{template}.yaml",
        folder / f"test_{name.replace('-', '_')}.py": stored / f"{template}.test",
    }
    for file in texts:
        if file.exists():
            raise NotWritten(f"{file} exists; choose another name or remove it first")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        with file.open("x", encoding="utf-8") as written:
            written.write(text.read_text(encoding="utf-8").replace(_MARK, name))
    return list(texts)
