"""A public class name belongs to one class, or the glossary explains why two share it."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "headwater"
GLOSSARY: Final = ROOT / "docs" / "internals" / "glossary.md"
HEADING: Final = "## Names that several classes share"


def modules_by_class() -> dict[str, list[str]]:
    """The modules of each public class; Kafka names the structs in `protocol/messages`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if not module.startswith("protocol/messages/"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(module)
    return found


def explained() -> set[str]:
    section = GLOSSARY.read_text(encoding="utf-8").split(HEADING, 1)[1].split("\n## ", 1)[0]
    return {
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in row.split("`")[1::2]
    }


def test_public_class_names_are_unique_or_explained_in_the_glossary() -> None:
    shared = {name for name, modules in modules_by_class().items() if len(modules) > 1}
    assert shared == explained()
