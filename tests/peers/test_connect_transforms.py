"""Single message transforms beside Kafka Connect's own, on the same records.

Keys and values have schemas, as those of Avro have: Spark's columns have types, too. A field that
Kafka adds to some records only is null in the others here; such fields are left out on both sides.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from headwater.spark.exceptions import InvalidOption
from headwater.spark.transforms.transform_config import read_transforms
from tests.peers.jars import KAFKA_CONNECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

pytestmark = pytest.mark.peers

_PROGRAM: Final = Path(__file__).parent / "java" / "TransformJudge.java"
_PACKAGE: Final = "org.apache.kafka.connect.data."
_PLAIN: Final = {
    "boolean": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    f"{_PACKAGE}Timestamp": "timestamp",
    f"{_PACKAGE}Date": "date",
}


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"field": name, **_schema(kind)}


def _schema(kind: Any) -> dict[str, Any]:
    match kind:
        case list():
            fields = [_field(name, inner) for name, inner in kind]
            return {"type": "struct", "optional": True, "fields": fields}
        case "timestamp":
            name = f"{_PACKAGE}Timestamp"
            return {"type": "int64", "name": name, "version": 1, "optional": True}
        case "date":
            return {"type": "int32", "name": f"{_PACKAGE}Date", "version": 1, "optional": True}
        case ("array", inner):
            return {"type": "array", "items": _schema(inner), "optional": True}
        case _:
            return {"type": kind, "optional": True}


KEY: Final = [("id", "int32"), ("region", "string")]
VALUE: Final = [
    ("id", "int64"),
    ("tiny", "int8"),
    ("small", "int16"),
    ("number", "int32"),
    ("ratio", "double"),
    ("half", "float"),
    ("is_new", "boolean"),
    ("name", "string"),
    ("digits", "string"),
    ("blob", "bytes"),
    ("at", "timestamp"),
    ("day", "date"),
    ("epoch", "int64"),
    ("stamp", "string"),
    ("tags", ("array", "string")),
    ("item", [("code", "string"), ("size", [("w", "int32"), ("h", "int32")])]),
]
_NOON: Final = 1_700_000_000_123


def _value(**changes: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "tiny": -3,
        "small": 300,
        "number": 70_000,
        "ratio": 2.75,
        "half": 0.5,
        "is_new": True,
        "name": "tea",
        "digits": "42",
        "blob": "AQID",
        "at": _NOON,
        "day": 19_000,
        "epoch": _NOON,
        "stamp": "2024-02-29 23:59:58",
        "tags": ["a", "b"],
        "item": {"code": "x", "size": {"w": 1, "h": 2}},
        **changes,
    }


def _record(offset: int, value: Any, **changes: Any) -> dict[str, Any]:
    return {
        "topic": "shop.orders",
        "partition": offset % 3,
        "offset": offset,
        "timestamp": _NOON + offset,
        "key": {"id": offset, "region": "eu"},
        "value": value,
        "headers": [["source", "app"], ["trace", "1"]],
        **changes,
    }


RECORDS: Final = [
    _record(1, _value()),
    _record(2, None, topic="shop.teas", headers=[]),
    _record(3, _value(**dict.fromkeys(dict(VALUE)))),
    _record(
        4,
        _value(
            id=-(2**63),
            number=-2_000_000_000,
            ratio=-1e30,
            half=3e20,
            is_new=False,
            digits="-129",
            at=-1,
            day=-1,
            epoch=-1_999,
            stamp="1969-12-31 00:00:00",
            item=None,
        ),
        topic="other",
        key=None,
    ),
    _record(
        5,
        _value(
            id=2**40 + 200,
            ratio=1e10,
            half=-0.0,
            digits=" 1",
            at=86_400_000 * 3,
            stamp="never",
            tags=[],
            item={"code": None, "size": None},
        ),
        headers=[["trace", "2"], ["trace", "3"]],
    ),
    _record(6, _value(ratio=0.5, digits="True", name="", epoch=86_399_999, at=5), topic="shop."),
]

FLAT: Final = "org.apache.kafka.connect.transforms.Flatten$Value"
CASES: Final[list[dict[str, str]]] = [
    {
        "type": "InsertField$Value",
        "topic.field": "t",
        "partition.field": "p",
        "offset.field": "o!",
        "timestamp.field": "ts?",
        "static.field": "shop",
        "static.value": "north",
    },
    {"type": "InsertField$Key", "static.field": "shop", "static.value": "north"},
    {"type": "ReplaceField$Value", "exclude": "name, blob,missing", "renames": "id:order,at:time"},
    {"type": "ReplaceField$Value", "include": "name,id", "renames": "id:order"},
    {"type": "ReplaceField$Key", "include": "region"},
    {
        "type": "MaskField$Value",
        "fields": "tiny,small,number,id,ratio,half,is_new,name,at,tags,missing",
    },
    {"type": "MaskField$Value", "fields": "name,digits", "replacement": "***"},
    {"type": "MaskField$Value", "fields": "number,id,ratio,tiny", "replacement": "17"},
    {"type": "MaskField$Key", "fields": "id"},
    {"type": "ValueToKey", "fields": "name,id"},
    {"type": "HoistField$Value", "field": "line"},
    {"type": "HoistField$Key", "field": "line"},
    {"type": "ExtractField$Key", "field": "id"},
    {"type": "ExtractField$Value", "field": "name"},
    {"type": "ExtractField$Value", "field": "item.size.w", "field.syntax.version": "V2"},
    {"type": FLAT},
    {"type": "Flatten$Value", "delimiter": "_"},
    {"type": "RegexRouter", "regex": r"shop\.(.*)", "replacement": "new-$1"},
    {"type": "RegexRouter", "regex": r"o|other|shop\..*", "replacement": "x"},
    {"type": "RegexRouter", "regex": r"hop", "replacement": "x"},
    {"type": "TimestampRouter"},
    {
        "type": "TimestampRouter",
        "topic.format": "${timestamp}_${topic}",
        "timestamp.format": "yyyy-MM",
    },
    {"type": "InsertHeader", "header": "origin", "value.literal": "north"},
    {"type": "InsertHeader", "header": "trace", "value.literal": "5"},
    {"type": "DropHeaders", "headers": "trace,missing"},
    *(
        {"type": "Cast$Value", "spec": ",".join(f"{name}:{kind}" for name in names)}
        for kind in ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
        for names in (
            ["id", "tiny", "small", "number", "is_new"],
            ["ratio", "half"],
            ["digits"],
            ["day", "at"],
        )
        if not (kind == "string" and "ratio" in names)
    ),
    {"type": "Cast$Value", "spec": "blob:string"},
    *(
        {"type": "TimestampConverter$Value", "field": name, "target.type": kind, **more}
        for name in ("at", "day", "epoch", "stamp")
        for kind, more in (
            ("Timestamp", {"format": "yyyy-MM-dd HH:mm:ss"}),
            ("Date", {"format": "yyyy-MM-dd HH:mm:ss"}),
            ("unix", {"format": "yyyy-MM-dd HH:mm:ss"}),
            ("unix", {"format": "yyyy-MM-dd HH:mm:ss", "unix.precision": "seconds"}),
            ("Timestamp", {"format": "yyyy-MM-dd HH:mm:ss", "unix.precision": "microseconds"}),
            ("string", {"format": "yyyy-MM-dd HH:mm:ss"}),
        )
    ),
    *(
        {"type": "TimestampConverter$Value", "field": "at", "target.type": "string", "format": each}
        for each in (
            "yyyy-MM-dd'T'HH:mm:ss.SSSX",
            "EEE, d MMM yyyy hh:mm:ss a Z",
            "yy/M/d 'o''clock'",
        )
    ),
]
PREDICATES: Final = {
    "isShop": {"type": "TopicNameMatches", "pattern": r"shop\..+"},
    "isTraced": {"type": "HasHeaderKey", "name": "trace"},
    "isDeleted": {"type": "RecordIsTombstone"},
    "isNone": {
        "type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "pattern": "shop|orders",
    },
}
CHAINS: Final[list[list[dict[str, str]]]] = [
    [{"type": "Filter"}],
    *(
        [{"type": "Filter", "predicate": name, "negate": negate}]
        for name in PREDICATES
        for negate in ("true", "false")
    ),
    [
        {"type": "RegexRouter", "regex": "shop[.](.*)", "replacement": "$1", "predicate": "isShop"},
        {"type": "InsertField$Value", "topic.field": "topic"},
        {
            "type": "InsertField$Value",
            "static.field": "late",
            "static.value": "1",
            "predicate": "isTraced",
            "negate": "true",
        },
        {"type": "Filter", "predicate": "isDeleted"},
        {"type": "ValueToKey", "fields": "id"},
        {"type": "ExtractField$Key", "field": "id"},
        {"type": "Cast$Key", "spec": "string"},
    ],
    [
        {"type": "ExtractField$Value", "field": "epoch"},
        {"type": "TimestampConverter$Value", "target.type": "Timestamp"},
        {"type": "HoistField$Value", "field": "at"},
    ],
    [
        {"type": "Flatten$Value", "delimiter": "_"},
        {"type": "Cast$Value", "spec": "item_size_w:string"},
        {"type": "ReplaceField$Value", "include": "item_size_w,item_code"},
    ],
    [{"type": "Filter", "predicate": "isDeleted"}, {"type": "MaskField$Value", "fields": "id"}],
]


class Judge:
    """Kafka Connect's transforms, in one Java process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def results(self, config: Mapping[str, str]) -> list[Any]:
        question = {"config": dict(config), "records": [_with_schemas(each) for each in RECORDS]}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return [_from_judge(each) for each in answer["records"]]


def _with_schemas(record: dict[str, Any]) -> dict[str, Any]:
    parts = {
        part: None if record[part] is None else {"schema": _schema(kind), "payload": record[part]}
        for part, kind in (("key", KEY), ("value", VALUE))
    }
    return {**record, **parts}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Judge]":
    if (reason := KAFKA_CONNECT.absence()) is not None:
        pytest.skip(reason)
    command = ["java", "-cp", KAFKA_CONNECT.class_path, str(_PROGRAM)]
    log = tmp_path_factory.mktemp("judge") / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        yield Judge(process)
        process.kill()


def _from_judge(answer: Any) -> Any:
    if answer is None or isinstance(answer, str):
        return answer if answer is None else "failed"
    parts = {
        part: None
        if answer[part] is None
        else _plain(answer[part]["payload"], answer[part]["schema"])
        for part in ("key", "value")
    }
    return {**answer, **parts}


def _plain(payload: Any, schema: Mapping[str, Any] | None) -> Any:
    """A value with the names of its types, without fields that are null."""
    if payload is None or schema is None:
        # Without a schema there are only nulls here, such as the hoisted null of a tombstone.
        return {} if isinstance(payload, dict) else payload
    kind = schema["type"]
    if kind == "struct":
        return {
            each["field"]: _plain(payload[each["field"]], each)
            for each in schema["fields"]
            if payload[each["field"]] is not None
        }
    if kind == "array":
        return [_plain(each, schema["items"]) for each in payload]
    return _PLAIN[schema.get("name", kind)], payload


def _kind(kind: Any) -> "DataType":
    from pyspark.sql import types as t

    match kind:
        case list():
            return t.StructType([t.StructField(name, _kind(inner)) for name, inner in kind])
        case ("array", inner):
            return t.ArrayType(_kind(inner))
        case _:
            name = {"timestamp": "timestamp", "date": "date"}.get(kind) or _PLAIN[kind]
            named = {"byte": "tinyint", "short": "smallint", "long": "bigint"}.get(name, name)
            return t._parse_datatype_string(named)


def _frame(spark: "SparkSession") -> Any:
    from pyspark.sql import types as t

    kinds = {
        "topic": t.StringType(),
        "partition": t.IntegerType(),
        "offset": t.LongType(),
        "timestamp": t.TimestampType(),
        "key": _kind(KEY),
        "value": _kind(VALUE),
        "headers": t._parse_datatype_string("array<struct<key:string,value:binary>>"),
    }
    schema = t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])
    rows = []
    for each in RECORDS:
        headers = [(name, text.encode()) for name, text in each["headers"]]
        given = {**each, "headers": headers, "timestamp": _moment(each["timestamp"])}
        given |= {"key": _python(each["key"], KEY), "value": _python(each["value"], VALUE)}
        rows.append(tuple(given[name] for name in kinds))
    return spark.createDataFrame(rows, schema)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC).replace(microsecond=ms % 1_000 * 1_000)


def _python(value: Any, kind: Any) -> Any:
    import base64

    if value is None:
        return None
    match kind:
        case list():
            return tuple(_python(value[name], inner) for name, inner in kind)
        case "timestamp":
            return _moment(value)
        case "date":
            return date.fromordinal(date(1970, 1, 1).toordinal() + value)
        case "bytes":
            return base64.b64decode(value)
        case _:
            return value


def _ours(spark: "SparkSession", config: Mapping[str, str]) -> list[Any]:
    from headwater.spark.transforms.transform_chain import FAILURE, with_failures

    found = with_failures(_frame(spark), read_transforms(config))
    kinds = {each.name: each.dataType for each in found.schema.fields}
    results: dict[int, Any] = {}
    for row in found.collect():
        result = {
            "topic": row.topic,
            **{part: _of_spark(row[part], kinds[part]) for part in ("key", "value")},
            "headers": [[each.key, bytes(each.value).decode()] for each in row.headers],
        }
        results[row.offset] = "failed" if row[FAILURE] is not None else result
    return [results.get(each["offset"]) for each in RECORDS]


def _of_spark(value: Any, kind: "DataType") -> Any:
    import base64

    from pyspark.sql import types as t

    if value is None:
        return None
    match kind:
        case t.StructType():
            return {
                each.name: _of_spark(value[each.name], each.dataType)
                for each in kind.fields
                if value[each.name] is not None
            }
        case t.ArrayType():
            return [_of_spark(each, kind.elementType) for each in value]
        case t.TimestampType():
            return "timestamp", round(value.timestamp() * 1_000)
        case t.DateType():
            return "date", value.toordinal() - date(1970, 1, 1).toordinal()
        case t.BinaryType():
            return "binary", base64.b64encode(value).decode()
        case t.FloatType():
            return "float", pytest.approx(value, rel=1e-6)
        case _:
            named = {"tinyint": "byte", "smallint": "short", "bigint": "long"}
            name = kind.simpleString()
            return named.get(name, name), value


def _config(chain: list[dict[str, str]]) -> dict[str, str]:
    names = [f"t{at}" for at in range(len(chain))]
    config = {"transforms": ",".join(names), "predicates": ",".join(PREDICATES)}
    for kind, all_of in (
        ("transforms", zip(names, chain, strict=True)),
        ("predicates", PREDICATES.items()),
    ):
        for name, options in all_of:
            config |= {f"{kind}.{name}.{option}": text for option, text in options.items()}
    return config


@pytest.mark.parametrize(
    "chain", [*([each] for each in CASES), *CHAINS], ids=lambda each: json.dumps(each)[:120]
)
def test_records_are_transformed_as_by_kafka_connect(
    judge: Judge, spark: "SparkSession", chain: list[dict[str, str]]
) -> None:
    config = _config(chain)
    theirs, ours = judge.results(config), _ours(spark, config)
    for record, their, our in zip(RECORDS, theirs, ours, strict=True):
        assert our == their, f"record {record['offset']}"


def test_field_that_is_there_already_is_refused_by_both(
    judge: Judge, spark: "SparkSession"
) -> None:
    config = _config([{"type": "InsertField$Value", "static.field": "id", "static.value": "1"}])
    assert judge.results(config)[0] == "failed"
    with pytest.raises(InvalidOption, match="has a field id already"):
        _ours(spark, config)
