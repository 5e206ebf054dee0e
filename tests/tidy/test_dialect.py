"""Check that the project does not use retired words, in prose or as part of a name.

Decisions and past entries of the changelog keep their words.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SUFFIXES: Final = {".py", ".pyx", ".pxi", ".md", ".js", ".yaml"}
RETIRED_WORDS: Final = (
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
    "receptions?",
    "settlement",
    "farewell",
    "anybody",
    "everybody",
    "heard",
    "hears?",
    "wish(?:es)?",
    "verdicts?",
    "strangers?",
    "vouche[sd]",
)
RETIRED_NAMES: Final = (
    "told_brokers",
    "hosted_partitions?",
    "live_settings",
    "commit_waits",
    "waiting_fetch",
    "partition_ties",
    "segmented_log",
    "colleague_link",
    "peer_dial",
    "sasl_gate",
    "first_users",
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
    "(?:Peer|Tls|Login|Mechanism|Sasl|Records|Sequence|ProducerEpoch|TransactionState|ProducerMapping|Registry)Refused",
    "NotFetched",
    "WriteContradicted",
    "BrokerIdTaken",
    "TooMuchWork",
    "WantedPartition",
    "FetchSessions",
    "ReplySlot",
    "GuardedConnection",
    "ProducerIdTaken",
    "TakeProducerId",
    "DatabaseAway",
    "GivenTable",
    "LogPlace",
    "EventTurns",
    "Glance",
    "told_(?:high_watermark|log_start)",
    "hears_watermarks",
    "speaks_as",
    "awaits_no_more",
    "has_news",
    "place_between",
    "is_followed_here",
    "lacks_replicas",
    "leave_commit",
    "leave_failed_directories",
    "expire_questions",
    "is_gone",
    "expire_gone",
    "note_(?:answer|hold|steps|read)",
    "ask_(?:shard|each|member|coordinator|controller)",
    "refuse_(?:late|unfit|request|columns|missing_topics|not_null|unknown|unstable|unwritable|without_schema)",
    "refused_(?:commit|fetch|transactional_commit)",
    "why_(?:unknown|unknown_for_topics|unsupported|refused|invalid|unreachable|unparsable|unwritable|bad_assignment|no_tls)",
    "tell_(?:denials|everything|roles|state)",
    "take_no_more",
    "takes_its_time",
    "want_refresh",
    "hurry(?:_locked)?",
    "leave_line",
    "way_in",
    "came_back",
    "fresh_(?:topic|cluster|member)_id",
    "misshapen",
    "damage_at",
    "failing_clearly",
    "said_before",
    "give_up",
    "attentive",
    "crowd_on",
    "posting_to",
    "broker_(?:went|came)",
    "tell_all",
)
# A word also counts as part of a name (`_heard`, `AllHeard`), a name only as a whole.
# A phrase may continue on the next line, also in a comment.
_PHRASES: Final = "|".join(RETIRED_WORDS).replace(" ", r"(?:\s|\n\s*#)+")
RETIRED: Final = re.compile(
    rf"(?<![A-Za-z])(?i:{_PHRASES})(?![A-Za-z])"
    rf"|(?:{'|'.join(each.capitalize() for each in RETIRED_WORDS)})(?![a-z])"
    rf"|\b(?i:{'|'.join(RETIRED_NAMES)})\b"
)
# Users of the console's JSON API read the field `wish` of a page of records.
EXEMPT: Final = re.compile(r'\bpage_data\.wish\b|\bwish=query,|\bwish: "RecordQuery"')
EXEMPT_FOLDER: Final = ROOT / "src" / "headwater" / "console"


def files() -> Iterator[Path]:
    for folder in ("src/headwater", "tests", "docs", "bench", "demo", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "decisions" not in path.parts and path != Path(__file__):
                yield path
    for name in ("README.md", "CONTRIBUTING.md", "Makefile"):
        yield ROOT / name


def retired_in(text: str) -> list[tuple[int, str]]:
    """Return line numbers and words."""
    found = RETIRED.finditer(text)
    return [(text.count("\n", 0, each.start()) + 1, each.group()) for each in found]


def without_exempt(path: Path, text: str) -> str:
    return EXEMPT.sub("", text) if path.is_relative_to(EXEMPT_FOLDER) else text


def test_no_file_uses_a_retired_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word}"
        for path in files()
        for number, word in retired_in(without_exempt(path, path.read_text("utf-8")))
    ]
    assert found == [], "rewrite the sentences; see CONTRIBUTING.md, Style"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nobody said so.", ["Nobody"]),
        ("self._heard = until_all_have_heard()", ["heard", "heard"]),
        ("class AllHeard(Wishes):", ["Heard", "Wishes"]),
        ("HEARD_OF = HeardOf(hosted_partitions)", ["HEARD", "Heard", "hosted_partitions"]),
        ("SaslRefused(note_answer(slot))", ["SaslRefused", "note_answer"]),
        ("# What a reader would\n    # get wrong", ["a reader would\n    # get wrong"]),
        ("a commit_waits_for a HEARTBEAT of the Hearth, marshalled", []),
    ],
)
def test_words_are_found_in_names_and_not_inside_other_words(
    text: str, expected: list[str]
) -> None:
    assert [word for _, word in retired_in(text)] == expected
