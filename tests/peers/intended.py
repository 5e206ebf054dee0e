"""Intended differences between Headwater's and Apache Kafka's responses.

One row per difference: the scenario, the path in its transcript, and the reason. The reasons are
the headings of `docs/reference/compatibility.md`, and a test compares the two. A row that explains
no difference fails the suite.
"""

import re
from dataclasses import dataclass
from typing import Final

from tests.peers.transcript import Difference, Plain

_ANYTHING: Final = "(anything)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intended:
    """An intended difference. `scenario` and `path` are patterns that must match as a whole."""

    reason: str
    scenario: str
    path: str
    kafka: Plain = _ANYTHING

    def covers(self, scenario: str) -> bool:
        return re.fullmatch(self.scenario, scenario) is not None

    def explains(self, difference: Difference) -> bool:
        if self.kafka not in (_ANYTHING, difference.kafka):
            return False
        return re.fullmatch(self.path, difference.path) is not None


_ERROR_MESSAGES: Final = "Error messages"
_RECORD_VALIDATION: Final = "Record validation"
_UNUSUAL_REQUESTS: Final = "Unusual requests"
_SPECIFIC_ERRORS: Final = "Specific errors instead of UNKNOWN_SERVER_ERROR"
_AUTO_CREATION: Final = "Auto-created topics are returned at once"
_BATCH_SIZES: Final = "Sizes of recompressed batches"
_NOT_IMPLEMENTED: Final = "Not implemented yet"
_NOT_SUPPORTED: Final = "Not supported"
_OWN_CONFIG: Final = "A topic config of Headwater"
_ELIGIBLE: Final = "No eligible leader replicas"
_EMPTY_GROUPS: Final = "Groups without offsets are removed at once"
_DELETED_RECORDS: Final = "ListOffsets ignores deleted records"
_REGULAR_EXPRESSIONS: Final = "Regular expressions are matched at once"

_TOPIC_CREATIONS: Final = (
    "topics-creation-in-every-version",
    "topics-names",
    "topics-counts-and-factors",
    "topics-placements",
    "topics-configs-at-creation",
)
_TOPIC_DESCRIPTIONS: Final = ("configs-topic-defaults", "configs-topic-with-own-values")
_PACKED: Final = "(GZIP|SNAPPY|LZ4|ZSTD)"
_FOREIGN_CONFIGS: Final = (
    r"(local\.retention\.(bytes|ms)|remote\.(storage\.enable|log\.(copy|delete\.on)\.disable))"
)

_ABOUT_PRODUCE: Final = (
    *(
        Intended(
            reason=_ERROR_MESSAGES,
            scenario=f"produce-{name}",
            path=r".*\.error_message",
            kafka=None,
        )
        for name in (
            "damaged-batches",
            "invalid-records",
            "invalid-record-lengths",
            "invalid-streams",
            "counts-that-lie",
            "several-batches-or-none",
            "too-large",
            "sequences",
            "odd-offsets-inside-a-batch",
        )
    ),
    Intended(
        reason=_RECORD_VALIDATION,
        scenario="produce-damaged-batches",
        path=r"not really gzip\..*\.(error_code|base_offset)",
    ),
    Intended(
        reason=_RECORD_VALIDATION,
        scenario="produce-invalid-records",
        path=rf"{_PACKED}: (a length beyond the batch|a good one)\..*\.(error_code|base_offset)",
    ),
    Intended(
        reason=_RECORD_VALIDATION,
        scenario="produce-invalid-(record-lengths|streams)",
        path=rf"{_PACKED}: .*\.(error_code|base_offset)",
    ),
    Intended(
        reason=_UNUSUAL_REQUESTS, scenario="produce-damaged-batches", path=r"a byte too many\..*"
    ),
    Intended(
        reason=_UNUSUAL_REQUESTS,
        scenario="produce-damaged-batches",
        path=r"(magic 3|negative delta)\..*\.(error_code|log_start_offset)",
    ),
    Intended(
        reason=_UNUSUAL_REQUESTS,
        scenario="produce-several-batches-or-none",
        path=r"two batches\..*\.log_start_offset",
    ),
    Intended(
        reason=_UNUSUAL_REQUESTS,
        scenario="produce-several-batches-or-none",
        path=r"(the same partition twice|the log)\..*",
    ),
    Intended(
        reason=_SPECIFIC_ERRORS,
        scenario="produce-damaged-batches",
        path=r"unknown codec\..*\.(error_code|log_start_offset)",
    ),
    Intended(reason=_BATCH_SIZES, scenario="produce-recompression", path=r".*\.length"),
)

_ABOUT_READING: Final = (
    Intended(
        reason=_SPECIFIC_ERRORS,
        scenario="fetch-places",
        path=r"an isolation level that is none\..*",
    ),
    Intended(reason=_SPECIFIC_ERRORS, scenario="fetch-limits", path=r"at most -1( of each)?\..*"),
    Intended(
        reason=_SPECIFIC_ERRORS,
        scenario="offsets-errors-of-list-offsets",
        path=r"an isolation level that is none\..*",
    ),
    Intended(
        reason=_DELETED_RECORDS,
        scenario="offsets-delete-records",
        path=r"largest timestamp( of nothing)?\..*",
    ),
)

_ABOUT_METADATA: Final = (
    Intended(
        reason=_NOT_IMPLEMENTED,
        scenario="metadata-api-versions",
        path=r"version \d\.(api_keys\.key \d+|(supported|finalized)_features.*)",
    ),
    Intended(reason=_SPECIFIC_ERRORS, scenario="metadata-by-id", path=r"neither id nor name\..*"),
    Intended(reason=_AUTO_CREATION, scenario="metadata-auto-creation", path=r"at first\..*"),
    Intended(
        reason=_AUTO_CREATION,
        scenario="metadata-auto-creation",
        path=r"a name that differs in _ and \. only\..*",
    ),
)

_ABOUT_TOPICS: Final = (
    *(
        Intended(reason=reason, scenario=scenario, path=path)
        for scenario in _TOPIC_CREATIONS
        for reason, path in (
            (_ELIGIBLE, r".*\.min\.insync\.replicas\.config_source"),
            (_NOT_SUPPORTED, rf".*\.configs\.{_FOREIGN_CONFIGS}"),
            (_OWN_CONFIG, r".*\.configs\.headwater\.record\.validation\.enable"),
        )
    ),
    Intended(
        reason=_NOT_SUPPORTED,
        scenario="topics-configs-at-creation",
        path=r"(internal segment bytes|local retention)\..*",
    ),
    Intended(reason=_SPECIFIC_ERRORS, scenario="topics-more-partitions", path=r"too many\..*"),
)

_ABOUT_CONFIGS: Final = (
    *(
        Intended(reason=reason, scenario=scenario, path=path)
        for scenario in _TOPIC_DESCRIPTIONS
        for reason, path in (
            (_ELIGIBLE, r".*\.min\.insync\.replicas\..*"),
            (_NOT_SUPPORTED, rf".*\.configs\.{_FOREIGN_CONFIGS}"),
            (_OWN_CONFIG, r".*\.configs\.headwater\.record\.validation\.enable"),
        )
    ),
    Intended(
        reason=_ELIGIBLE,
        scenario="configs-broker-configs",
        path=r"(broker 1\.configs\.min\.insync\.replicas\..*|all brokers\.configs)",
    ),
    Intended(
        reason=_NOT_IMPLEMENTED,
        scenario="configs-resources-that-are-not-there",
        path=r"client metrics\..*",
    ),
    Intended(
        reason=_NOT_IMPLEMENTED,
        scenario="group-configs-of-one-group",
        path=r".*\.configs\.(share|streams)\..*",
    ),
    Intended(
        reason=_SPECIFIC_ERRORS,
        scenario="configs-incremental-changes",
        path=r"an operation that is none\..*",
    ),
)

_ABOUT_GROUPS: Final = (
    Intended(
        reason=_EMPTY_GROUPS,
        scenario="groups-deleted-offsets",
        path=r"delete the group\.results\[0\]\.error_code",
    ),
    Intended(
        reason=_REGULAR_EXPRESSIONS,
        scenario="groups-subscription-by-names-and-pattern",
        path=r"at first.*",
    ),
)

_ABOUT_TRANSACTIONS: Final = (
    Intended(
        reason=_ERROR_MESSAGES,
        scenario="transactions-life-of-version-2",
        path=r"not at the beginning\..*\.error_message",
        kafka=None,
    ),
)

INTENDED: Final[tuple[Intended, ...]] = (
    *_ABOUT_PRODUCE,
    *_ABOUT_READING,
    *_ABOUT_METADATA,
    *_ABOUT_TOPICS,
    *_ABOUT_CONFIGS,
    *_ABOUT_GROUPS,
    *_ABOUT_TRANSACTIONS,
)
