"""Mirror a database under load while its processes are killed, and compare both.

    python -m tests.spark.eos.cdc_kills --minutes 10
    python -m tests.spark.eos.cdc_kills --minutes 10 --seed 7    the same workload and victims
    python -m tests.spark.eos.cdc_kills --minutes 10 --plain     without Spark: many more kills

Several writers change a PostgreSQL database. `postgresql-cdc` writes the changes to topics, exactly
once, and the sink `postgresql` applies the topics to a second server. At the end both servers have
the same tables, and no topic has a change twice or changes of a key out of order.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import psycopg

from headwater.client import Admin, NewTopic
from headwater.testing import EmbeddedBroker
from tests import postgresql
from tests.cdc_workload import (
    TABLES,
    TRUNCATED,
    FedRecord,
    Load,
    Writer,
    check_order,
    checksum,
    columns_of,
    create_tables,
)
from tests.spark.eos.cdc_job import CdcJob
from tests.spark.pipelines import read

_ROOT = Path(__file__).parents[3]
_PATIENCE_S = 900.0
_POLL_S = 0.1
_PAUSE = threading.Event()
_WRITERS = 3
_KEYS = 1000
_ROWS_PER_BATCH = 500
_SCHEMA = "shop"
_LOAD = Load(keys=_KEYS, bulk=0.003, pause_s=0.25)
_DDL = 0.02


class CdcVictim(StrEnum):
    """What is killed with SIGKILL; all of it is started again."""

    # The process with the query, Spark's JVM and all Python workers.
    CONNECTOR = "connector"
    # The JVM alone: Python processes outlive it for a moment.
    DRIVER = "driver"
    WORKER = "worker"
    BROKER = "broker"
    POSTGRESQL = "postgresql"
    # PostgreSQL ends all connections and recovers.
    WALSENDER = "walsender"
    TARGET = "target"


_OF_SPARK = (CdcVictim.DRIVER, CdcVictim.WORKER)


@dataclass(slots=True)
class Mirrored:
    """What a trial has seen."""

    kills: Counter[CdcVictim] = field(default_factory=Counter)
    starts: int = 0
    transactions: int = 0
    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        killed = ", ".join(f"{count} x {victim}" for victim, count in sorted(self.kills.items()))
        rows = ", ".join(f"{table} {count}" for table, count in self.rows.items())
        return (
            f"killed: {killed}; the job was started {self.starts} times\n"
            f"{self.transactions} transactions, {self.records} records; rows: {rows}"
        )


class Trial:
    """One run: servers, writers, the job and what kills them."""

    def __init__(
        self, folder: Path, tell: Callable[[str], None], *, is_plain: bool = False
    ) -> None:
        self._folder = folder
        self._tell = tell
        self._program = "cdc_plain_job" if is_plain else "cdc_job"
        self.victims = [each for each in CdcVictim if not (is_plain and each in _OF_SPARK)]
        self._mirrored = Mirrored()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, seed: int, seconds: float) -> Mirrored:
        with ExitStack() as stack:
            settings = {"wal_level": "logical", "max_wal_senders": "5"}
            self._source = stack.enter_context(postgresql.killable_server(**settings))
            self._target = stack.enter_context(postgresql.killable_server())
            self._broker = stack.enter_context(EmbeddedBroker(timeout_s=120))
            stack.callback(self._end_job)
            job = self._prepare()
            writers = [
                Writer(
                    self._source.uri,
                    job.tables,
                    seed=seed + each,
                    load=replace(_LOAD, ddl=0 if each else _DDL),
                )
                for each in range(_WRITERS)
            ]
            for writer in writers:
                stack.callback(writer.stop)
                writer.start()
            self._kill_for(seconds, job, random.Random(seed))
            for writer in writers:
                writer.stop()
            self._mirrored.transactions = sum(each.done for each in writers)
            self._end_job()
            self._finish(replace(job, is_once=True))
            self._verify(job)
        return self._mirrored

    def _prepare(self) -> CdcJob:
        names = (*TABLES, TRUNCATED)
        tables = create_tables(self._source.uri, _SCHEMA, names)
        create_tables(self._target.uri, _SCHEMA, names)
        with closing(psycopg.connect(self._source.uri)) as connection:
            for table in tables:
                connection.execute(
                    f"INSERT INTO {table} (id, part, v) SELECT n, p, repeat('x', n) "
                    f"FROM generate_series(0, {_KEYS - 1}) n, (VALUES ('a'), ('b')) AS q (p)"
                )
            connection.commit()
        job = CdcJob(
            brokers=self._broker.bootstrap_servers,
            source=self._source.uri,
            target=self._target.uri,
            tables=tables,
            slot=_SCHEMA,
            folder=str(self._folder),
            rows_per_batch=_ROWS_PER_BATCH,
        )
        topics = [
            NewTopic(name=each, partitions=1 if each.endswith(TRUNCATED) else 2)
            for each in job.topics
        ]
        with Admin(bootstrap_servers=job.brokers) as admin:
            admin.create_topics(topics)
        return job

    def _kill_for(self, seconds: float, job: CdcJob, chance: random.Random) -> None:
        """Kill in rounds, each with all victims in random order; complete the last round."""
        began_s = time.monotonic()
        victims = chance.sample(self.victims, len(self.victims))
        while victims or time.monotonic() < began_s + seconds:
            if not victims:
                victims = chance.sample(self.victims, len(self.victims))
            victim = victims.pop()
            # Most of the time the mirror works when the next blow falls, else it just recovers.
            if chance.random() < 0.8:
                self._await_batches(job)
            self._wait(job, chance.uniform(0, 4))
            self._kill(victim, job, chance)
            self._mirrored.kills[victim] += 1
            self._tell(f"{time.monotonic() - began_s:5.0f} s: killed {victim}")
        self._await_batches(job)

    def _await_batches(self, job: CdcJob) -> None:
        """Wait until both queries have committed another batch."""
        before = self._batches(job)
        until_s = time.monotonic() + _PATIENCE_S
        while any(now <= then for now, then in zip(self._batches(job), before, strict=True)):
            if time.monotonic() > until_s:
                raise AssertionError(f"no batch in {_PATIENCE_S} s: see {self._folder}/job.log")
            self._wait(job, _POLL_S)

    def _batches(self, job: CdcJob) -> list[int]:
        """The last committed batch of each query."""
        return [
            max((int(each.name) for each in commits.glob("[0-9]*")), default=-1)
            for commits in (
                Path(job.checkpoint(name)) / "commits" for name in ("captured", "applied")
            )
        ]

    def _wait(self, job: CdcJob, seconds: float) -> None:
        """Wait, and start the job again if it has ended."""
        until_s = time.monotonic() + seconds
        while True:
            if self._process is None or self._process.poll() is not None:
                self._start_job(job)
            if time.monotonic() >= until_s:
                return
            _PAUSE.wait(_POLL_S)

    def _kill(self, victim: CdcVictim, job: CdcJob, chance: random.Random) -> None:
        match victim:
            case CdcVictim.CONNECTOR:
                self._end_job()
            case CdcVictim.DRIVER:
                _kill_all(self._jvms())
                self._end_job(is_gentle=True)
            case CdcVictim.WORKER:
                workers = [each for jvm in self._jvms() for each in _descendants(jvm)]
                _kill_all([chance.choice(sorted(workers))] if workers else [])
            case CdcVictim.BROKER:
                self._broker.kill()
                self._wait(job, chance.uniform(0, 3))
                self._broker.start()
            case CdcVictim.POSTGRESQL:
                self._source.kill()
                self._wait(job, chance.uniform(0, 3))
                self._source.start()
            case CdcVictim.WALSENDER:
                with closing(psycopg.connect(self._source.uri)) as connection:
                    found = connection.execute("SELECT pid FROM pg_stat_replication").fetchall()
                _kill_all([pid for (pid,) in found])
            case CdcVictim.TARGET:
                self._target.kill()
                self._wait(job, chance.uniform(0, 3))
                self._target.start()

    def _start_job(self, job: CdcJob) -> None:
        path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        with (self._folder / "job.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.spark.eos.{self._program}", json.dumps(asdict(job))],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._mirrored.starts += 1

    def _end_job(self, *, is_gentle: bool = False) -> None:
        """Kill the job with everything that it has started, or just its first process."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            if is_gentle:
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _jvms(self) -> list[int]:
        if self._process is None:
            return []
        return [each for each in _descendants(self._process.pid) if _command(each) == "java"]

    def _finish(self, job: CdcJob) -> None:
        """Mirror the rest."""
        for _ in range(3):
            self._start_job(job)
            assert self._process is not None
            if self._process.wait(_PATIENCE_S) == 0:
                return
        raise AssertionError(f"the job fails: see {self._folder}/job.log")

    def _verify(self, job: CdcJob) -> None:
        mirrored = self._mirrored
        for topic, table in zip(job.topics, job.tables, strict=True):
            records = [
                FedRecord(
                    each.topic,
                    each.key,
                    each.value,
                    {name: text or b"" for name, text in each.headers},
                )
                for each in read(self._broker, topic)
            ]
            mirrored.records += len(records)
            mirrored.violations += _repeated(records)
            try:
                check_order(records)
            except AssertionError as error:
                mirrored.violations.append(str(error))
            columns = columns_of(self._source.uri, table)
            with closing(psycopg.connect(self._source.uri)) as connection:
                found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert found is not None
            mirrored.rows[table] = found[0]
            sums = [checksum(uri, table, columns) for uri in (job.source, job.target)]
            self._tell(f"{table}: SHA-256 {sums[0]} of {found[0]} rows, mirror {sums[1]}")
            if sums[0] != sums[1]:
                mirrored.violations.append(f"{table} and its mirror differ")
                _keep_rows(self._folder, job, table, columns)


def _repeated(records: Sequence[FedRecord]) -> list[str]:
    """Changes that a topic has twice, by commit LSN and order in the transaction."""
    seen = Counter(
        (
            each.headers["__commit_lsn"],
            each.headers["__tx_order"],
            each.key,
            None if each.value is None else json.loads(each.value)["op"],
        )
        for each in records
        if "__txid" in each.headers
    )
    return [f"{count} times: {change}" for change, count in seen.items() if count > 1]


def _keep_rows(folder: Path, job: CdcJob, table: str, columns: Sequence[str]) -> None:
    """Write the rows of both servers to files, for a comparison."""
    for name, uri in (("source", job.source), ("target", job.target)):
        with closing(psycopg.connect(uri)) as connection:
            statement = (
                f"COPY (SELECT {', '.join(columns)} FROM {table} ORDER BY part, id) TO STDOUT"
            )
            with (
                connection.cursor().copy(statement) as copy,
                (folder / f"{table}.{name}").open("wb") as file,
            ):
                for piece in copy:
                    file.write(piece)


def _kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for each in (task / "children").read_text().split():
                yield int(each)
                yield from _descendants(int(each))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.eos.cdc_kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--plain", action="store_true", help="run without Spark")
    options = parser.parse_args(arguments)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="headwater-cdc-kills-"))
    print(f"seed {seed}, {options.minutes:g} minutes, in {folder}", flush=True)
    trial = Trial(folder, lambda line: print(line, flush=True), is_plain=options.plain)
    mirrored = trial.run(seed, options.minutes * 60)
    print(mirrored)
    if mirrored.violations:
        for each in mirrored.violations[:20]:
            print(f"  {each}")
        print(f"FAILED; again with: make test-cdc SEED={seed}; files are in {folder}")
        return 1
    shutil.rmtree(folder)
    print("both databases have the same rows, and each change was written once, in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
