"""Read the Avro parts of a pipeline file: `avro` or `{avro: {schema: x.avsc}}`.

A schema is a file beside the pipeline's, or is written in it: text that begins like JSON is a
schema, everything else is a file name.
"""

import json
from pathlib import Path
from typing import Any, Final

from headwater.pipelines.spec.pipeline_spec import AvroSpec, Encoding
from headwater.pipelines.spec.section import Section
from headwater.schemas.avro.resolved_schema import parse_schema
from headwater.schemas.errors import UnsupportedSchema
from headwater.spark.formats.avro.avro_options import SubjectNaming

AVRO: Final = "avro"
_STRATEGIES: Final = {each.value: each.value for each in SubjectNaming}
_MOST_BYTES: Final = 1 << 20


def read_avro_spec(section: Section, part: str, folder: Path) -> AvroSpec:
    """Read the Avro settings of a key or a value."""
    if section.raw(part) == AVRO:
        return AvroSpec()
    around = section.inner(part)
    inner = None if around is None else around.inner(AVRO)
    if inner is None:
        return AvroSpec()
    found = AvroSpec(
        schema=_schema(inner, folder),
        subject=inner.text("subject"),
        strategy=inner.choice("strategy", _STRATEGIES, None),
    )
    inner.report_unknown()
    return found


def read_encoding(section: Section, folder: Path) -> Encoding | None:
    """Read what a sink encodes as Avro."""
    inner = section.inner("encode")
    if inner is None:
        return None
    parts = {}
    for part in ("key", "value"):
        value = inner.raw(part)
        if value is None:
            continue
        if value != AVRO and not (isinstance(value, dict) and list(value) == [AVRO]):
            inner.add_problem(
                f"{part} is encoded by avro, not {value!r}: leave it out for others", part
            )
            continue
        parts[part] = read_avro_spec(inner, part, folder)
    found = Encoding(
        parts=parts,
        registry=inner.text("registry"),
        register=inner.flag("register", default=True),
        latest=inner.flag("latest"),
    )
    if found.latest and any(each.schema is not None for each in parts.values()):
        inner.add_problem("schema and latest exclude each other", "latest")
    inner.report_unknown()
    return found


def _schema(section: Section, folder: Path) -> str | None:
    given: Any = section.raw("schema")
    if given is None:
        return None
    if isinstance(given, dict | list):
        text = json.dumps(given)
    elif isinstance(given, str) and given.lstrip()[:1] in ("{", "[", '"'):
        text = given
    elif isinstance(given, str):
        read = _read(section, folder / given)
        if read is None:
            return None
        text = read
    else:
        section.add_problem(f"schema must be a file or an Avro schema, not {given!r}", "schema")
        return None
    try:
        parse_schema(text)
    except UnsupportedSchema as error:
        section.add_problem(str(error), "schema")
        return None
    return text


def _read(section: Section, file: Path) -> str | None:
    try:
        if file.stat().st_size > _MOST_BYTES:
            section.add_problem(
                f"the schema {file.name} has more than {_MOST_BYTES} bytes", "schema"
            )
            return None
        return file.read_text(encoding="utf-8")
    except OSError as error:
        section.add_problem(f"the schema {file} cannot be read: {error.strerror}", "schema")
    except UnicodeDecodeError:
        section.add_problem(f"the schema {file} is not written in UTF-8", "schema")
    return None
