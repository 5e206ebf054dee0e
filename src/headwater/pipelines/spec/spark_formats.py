"""The formats of sources and sinks, and the options that each of them reads.

Spark ignores unknown options, so that a misspelled one is noticed only when the data is wrong. A
pipeline rejects it with its line. Formats of other packages (`spark.jars.packages`) may have any
option.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
JDBC: Final = "jdbc"

FILE_FORMATS: Final = ("parquet", "orc", "json", "csv", "text", "xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFormat:
    """What a format can be used for, and its options for reading and for writing."""

    # None if a pipeline cannot stream from it, read it as a static table, or write to it.
    stream: frozenset[str] | None = None
    static: frozenset[str] | None = None
    sink: frozenset[str] | None = None
    # Options that begin with one of these belong to a library below Spark.
    prefixes: tuple[str, ...] = ()
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Required options for the uses `stream`, `static` and `sink`."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILES: Final = _names(
    "path pathGlobFilter recursiveFileLookup ignoreCorruptFiles ignoreMissingFiles basePath"
)
_FILE_STREAM: Final = _FILES | _names(
    "maxFilesPerTrigger maxBytesPerTrigger latestFirst fileNameOnly maxFileAge maxCachedFiles "
    "discardCachedInputRatio cleanSource sourceArchiveDir"
)
_STATIC_FILES: Final = _FILES | _names("modifiedBefore modifiedAfter")
_FILE_SINK: Final = _names("path compression maxRecordsPerFile retention")

_TEXT_TIMES: Final = _names(
    "dateFormat timeFormat timestampFormat timestampNTZFormat timeZone locale"
)
_PARSING: Final = _TEXT_TIMES | _names(
    "mode columnNameOfCorruptRecord enableDateTimeParsingFallback multiLine encoding charset "
    "samplingRatio singleVariantColumn"
)
_JSON: Final = _PARSING | _names(
    "primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes "
    "allowNumericLeadingZeros allowNonNumericNumbers allowBackslashEscapingAnyCharacter "
    "allowUnquotedControlChars lineSep dropFieldIfAllNull inferTimestamp explodeEmbeddedArray "
    "useUnsafeRow"
)
_CSV_BOTH: Final = _TEXT_TIMES | _names(
    "sep delimiter encoding charset quote escape header nullValue emptyValue lineSep "
    "ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace charToEscapeQuoteEscaping extension"
)
_CSV: Final = (
    _PARSING
    | _CSV_BOTH
    | _names(
        "comment inferSchema preferDate enforceSchema nanValue positiveInf negativeInf maxColumns "
        "maxCharsPerColumn unescapedQuoteHandling inputBufferSize columnPruning"
    )
)
_XML_BOTH: Final = _TEXT_TIMES | _names(
    "rowTag attributePrefix valueTag nullValue encoding charset arrayElementName validateName"
)
_XML: Final = (
    _PARSING
    | _XML_BOTH
    | _names(
        "excludeAttribute inferSchema ignoreSurroundingSpaces rowValidationXSDPath ignoreNamespace "
        "wildcardColName prefersDecimal preferDate useLegacyXMLParser"
    )
)
_PARQUET: Final = _names("mergeSchema datetimeRebaseMode int96RebaseMode")
_NEEDS_PATH: Final = {"stream": ("path",), "static": ("path",)}


def _file_format(
    reading: frozenset[str], writing: frozenset[str] = frozenset(), prefixes: tuple[str, ...] = ()
) -> SparkFormat:
    return SparkFormat(
        stream=_FILE_STREAM | reading,
        static=_STATIC_FILES | reading,
        sink=_FILE_SINK | writing,
        prefixes=prefixes,
        required=_NEEDS_PATH,
    )


FORMATS: Final[Mapping[str, SparkFormat]] = {
    "parquet": _file_format(_PARQUET, prefixes=("parquet.",)),
    "orc": _file_format(_names("mergeSchema"), prefixes=("orc.",)),
    "json": _file_format(
        _JSON,
        _TEXT_TIMES
        | _names(
            "encoding charset lineSep ignoreNullFields writeNonAsciiCharacterAsCodePoint pretty "
            "sortKeys"
        ),
    ),
    "csv": _file_format(_CSV, _CSV_BOTH | _names("quoteAll escapeQuotes codec")),
    "text": _file_format(_names("wholetext lineSep encoding charset"), _names("lineSep")),
    "xml": _file_format(_XML, _XML_BOTH | _names("rootTag declaration indent")),
    "binaryFile": SparkFormat(stream=_FILE_STREAM, static=_STATIC_FILES, required=_NEEDS_PATH),
    "rate": SparkFormat(stream=_names("rowsPerSecond rampUpTime numPartitions")),
    "rate-micro-batch": SparkFormat(
        stream=_names("rowsPerBatch numPartitions startTimestamp advanceMillisPerBatch"),
        required={"stream": ("rowsPerBatch",)},
    ),
    "socket": SparkFormat(
        stream=_names("host port includeTimestamp numPartitions"),
        required={"stream": ("host", "port")},
    ),
    "console": SparkFormat(sink=_names("numRows truncate")),
    "memory": SparkFormat(sink=frozenset()),
    "noop": SparkFormat(sink=frozenset()),
    DELTA: SparkFormat(
        stream=_names(
            "path maxFilesPerTrigger maxBytesPerTrigger ignoreDeletes ignoreChanges "
            "skipChangeCommits startingVersion startingTimestamp readChangeFeed readChangeData "
            "excludeRegex failOnDataLoss withEventTimeOrder schemaTrackingLocation "
            "allowSourceColumnDrop allowSourceColumnRename allowSourceColumnTypeChange"
        ),
        static=_names(
            "path versionAsOf timestampAsOf readChangeFeed startingVersion endingVersion "
            "startingTimestamp endingTimestamp"
        ),
        sink=_names("path compression maxRecordsPerFile userMetadata optimizeWrite"),
    ),
    ICEBERG: SparkFormat(
        stream=_names("streaming-skip-overwrite-snapshots streaming-skip-delete-snapshots"),
        static=_names("snapshot-id"),
        sink=frozenset(),
    ),
    # Every other option is a property of the database's driver.
    JDBC: SparkFormat(static=_names("url dbtable query"), prefixes=("",)),
}

# Formats that users expect and pip does not install, with the package that has them.
_ELSEWHERE: Final = {
    "avro": "add org.apache.spark:spark-avro_2.13 of your Spark version to spark.jars.packages",
    "kafka": "leave out format to read and write topics, or add "
    "org.apache.spark:spark-sql-kafka-0-10_2.13 to spark.jars.packages",
    "hudi": "add Hudi's bundle for your Spark version to spark.jars.packages",
}

# Settings that add jars, which may have formats that are not known here.
JAR_SETTINGS: Final = (
    "spark.jars",
    "spark.jars.packages",
    "spark.driver.extraClassPath",
    "spark.submit.pyFiles",
)


def unknown_format_reason(
    name: str, conf: Mapping[str, str], others: Iterable[str] = ()
) -> str | None:
    """Return the reason in one line if no installed package has the format `name`.

    `others` are formats of installed Python data sources. Class names, and pipelines that add jars,
    are not checked.
    """
    known = {each.lower(): each for each in (*FORMATS, *others)}
    if name.lower() in known or "." in name or any(conf.get(each) for each in JAR_SETTINGS):
        return None
    if name.lower() in _ELSEWHERE:
        return f"the format {name} is not installed: {_ELSEWHERE[name.lower()]}"
    near = difflib.get_close_matches(name.lower(), list(known), 1)
    hint = (
        f"did you mean {known.get(near[0], near[0])}?"
        if near
        else f"there are {_names_in_order(known)}"
    )
    return f"the format {name} is not installed; {hint}"


def _names_in_order(known: Mapping[str, str]) -> str:
    return ", ".join(sorted(known.values(), key=str.lower))


def option_problems(
    name: str, use: str, options: Mapping[str, str]
) -> list[tuple[str | None, str]]:
    """Return unknown and missing options of Spark's format `name`, with reasons.

    `use` is `stream`, `static` or `sink`. The first part is the option, or None for a missing one.
    """
    chosen = format_named(name)
    if chosen is None:
        return []
    known: frozenset[str] | None = getattr(chosen, use)
    if known is None:
        return [("format", _why_useless(name, chosen, use))]
    return _option_problems(
        name, options, known, prefixes=chosen.prefixes, required=chosen.required.get(use, ())
    )


def _option_problems(
    whose: str,
    options: Mapping[str, str],
    known: frozenset[str],
    *,
    prefixes: tuple[str, ...] = (),
    required: tuple[str, ...] = (),
) -> list[tuple[str | None, str]]:
    """Return unknown options with a suggestion, and missing ones."""
    names = {each.lower(): each for each in known}
    given = {each.lower() for each in options}
    found: list[tuple[str | None, str]] = [
        (None, f"{whose} needs {each}") for each in required if each.lower() not in given
    ]
    for option in options:
        if option.lower() in names or (prefixes and option.startswith(prefixes)):
            continue
        near = difflib.get_close_matches(option.lower(), names, 1)
        hint = f"; did you mean {names[near[0]]}?" if near else ""
        found.append((option, f"{whose} has no option {option}{hint}"))
    return found


def format_named(name: str) -> SparkFormat | None:
    """Return a format by name; like Spark, ignores the case."""
    for each, found in FORMATS.items():
        if each.lower() == name.lower():
            return found
    return None


def _why_useless(name: str, chosen: SparkFormat, use: str) -> str:
    if use == "sink":
        return f"{name} cannot be written to by a stream"
    if use == "static":
        return f"{name} can only be read as a stream: leave out static"
    if chosen.static is not None:
        return f"{name} cannot be read as a stream: set static: true, and join a stream with it"
    return f"{name} cannot be read from"
