"""Write rows as files for sources that are no topics."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.pipelines.spec.pipeline_spec import SourceSpec
from headwater.testing.pipelines.source_records import json_line

# A session of Spark; this layer does not import it.
Session = Any
Rows = Sequence[Mapping[str, Any]]


class FedFiles:
    """Writes one file, or folder of part files, for each call."""

    def __init__(self, spark: Session, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._count = 0

    def schema_of(self, rows: Rows) -> str:
        """The columns that Spark finds in these rows, for a source without a schema."""
        found: str = self._spark.read.json(self._staged(rows)).schema.toDDL()
        return found

    def write(self, source: SourceSpec, rows: Rows) -> None:
        path = Path(source.options["path"])
        path.mkdir(parents=True, exist_ok=True)
        kind = source.options.get("format", "parquet") if source.connector else source.format
        self._count += 1
        if kind == "json":
            staged = Path(self._staged(rows))
            # A source must not see half of a file.
            staged.rename(path / f"{self._count}.json")
        elif kind == "csv" and source.connector is not None:
            self._write_csv(path / f"{self._count}.csv", rows)
        else:
            reader = self._spark.read
            if source.schema is not None:
                reader = reader.schema(source.schema)
            frame = reader.json(self._staged(rows)).coalesce(1)
            options = {n: text for n, text in source.options.items() if n in ("header", "sep")}
            frame.write.format(kind).options(**options).mode("append").save(str(path))

    def add_empty(self, source: SourceSpec) -> None:
        """A file without rows, so that a query has something to read."""
        if source.connector is None:
            self.write(source, [])

    def _staged(self, rows: Rows) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        file = self._folder / f"staged-{self._count}.json"
        file.write_text("".join(f"{json_line(row)}\n" for row in rows), encoding="utf-8")
        return str(file)

    def _write_csv(self, file: Path, rows: Rows) -> None:
        hidden = file.with_name(f".{file.name}")
        with hidden.open("w", encoding="utf-8", newline="") as written:
            columns = list(dict.fromkeys(name for row in rows for name in row))
            writer = csv.DictWriter(written, columns)
            writer.writeheader()
            writer.writerows(rows)
        hidden.rename(file)
