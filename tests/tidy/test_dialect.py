"""Words that the project no longer uses, counted per package: a count may only fall.

`python -m tests.tidy.test_dialect` rewrites the counts after prose has been rewritten. Decisions
and past entries of the changelog keep their words.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
COUNTS: Final = ROOT / "tests" / "tidy" / "dialect.toml"
SUFFIXES: Final = {".py", ".pyx", ".pxi", ".md", ".js", ".yaml"}
RETIRED: Final = (
    "nobody",
    "somebody",
    "whoever",
    "colleagues?",
    "petitions?",
    "vigils?",
    "errands?",
    "dice",
    "a reader would get wrong",
    "those that",
    "parted by",
    "anew",
    "shall",
    "outbox(?:es)?",
    "told_brokers",
    "hosted_partitions?",
    "live_settings",
    "receptions?",
    "settlement",
    "commit_waits",
    "waiting_fetch",
    "partition_ties",
    "segmented_log",
    "colleague_link",
    "peer_dial",
    "sasl_gate",
    "first_users",
    "farewell",
    "held_off",
    "web_document",
    "named_leaders",
    "unplaced_record",
    "given_tables",
    "given_options",
    "kept_clients",
    "gentle_stop",
    "topic_following",
    "group_following",
    "HostedPartitions",
    "LogDirectories",
    "fact_file",
    "anybody",
    "everybody",
    "heard",
    "hears?",
    "wish(?:es)?",
    "verdicts?",
    "strangers?",
    "vouche[sd]",
)
WORDS: Final = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b", re.IGNORECASE)


def places() -> Iterator[tuple[str, Path]]:
    """Each file with the package that it counts for."""
    for folder in ("src/headwater", "tests", "docs", "bench", "demo", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "decisions" not in path.parts and path != Path(__file__):
                first, *rest = path.relative_to(ROOT / folder).parts
                yield f"{folder}/{first}" if rest else folder, path
    for name in ("README.md", "CONTRIBUTING.md", "Makefile"):
        yield "front", ROOT / name


def counted() -> dict[str, int]:
    counts: Counter[str] = Counter()
    for package, path in places():
        counts[package] += len(WORDS.findall(path.read_text("utf-8")))
    return {package: count for package, count in sorted(counts.items()) if count}


def test_no_package_gains_retired_words() -> None:
    allowed = tomllib.loads(COUNTS.read_text("utf-8"))
    found = counted()
    gained = {name: count for name, count in found.items() if count > allowed.get(name, 0)}
    assert gained == {}, "rewrite the sentences; see CONTRIBUTING.md, Style"
    fallen = {name: count for name, count in allowed.items() if count > found.get(name, 0)}
    assert fallen == {}, "well done: run `python -m tests.tidy.test_dialect` to keep it so"


if __name__ == "__main__":
    rows = "".join(f'"{package}" = {count}\n' for package, count in counted().items())
    COUNTS.write_text("# Retired words per package; see test_dialect.py.\n" + rows, "utf-8")
