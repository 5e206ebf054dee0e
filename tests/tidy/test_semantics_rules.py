"""Every rule id that code, tests or docs cite is defined in docs/internals/kafka-semantics.md."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEMANTICS = ROOT / "docs" / "internals" / "kafka-semantics.md"
FOLDERS = ("src", "tests", "docs", "bench")
SUFFIXES = {".py", ".pyx", ".pxi", ".md"}
DEFINITION = re.compile(r"^- \*\*([A-Z]+-\d+)\*\* ", re.MULTILINE)


def defined_rules() -> list[str]:
    return DEFINITION.findall(SEMANTICS.read_text())


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path != SEMANTICS:
                yield path


def test_rule_ids_are_defined_once() -> None:
    rules = defined_rules()
    assert len(rules) > 100
    assert sorted(rules) == sorted(set(rules))


def test_every_cited_rule_id_is_defined() -> None:
    rules = set(defined_rules())
    prefixes = sorted({rule.split("-")[0] for rule in rules})
    citation = re.compile(rf"\b(?:{'|'.join(prefixes)})-\d+\b")
    unknown = {
        f"{path.relative_to(ROOT)}: {rule}"
        for path in sources()
        for rule in citation.findall(path.read_text())
        if rule not in rules
    }
    assert sorted(unknown) == []
