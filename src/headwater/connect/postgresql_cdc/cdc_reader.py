"""Read snapshots and committed transactions of PostgreSQL tables.

    with CdcReader(uri, tables=["public.orders"], slot="shop", publication="shop") as reader:
        reader.create()
        with reader.snapshot() as snapshot:
            for change in snapshot.rows(): ...
            position = snapshot.position
        transactions, position = reader.read(position)
        reader.confirm(position)

Reading confirms nothing: until `confirm`, PostgreSQL keeps the log and `read` from the same
position returns the same transactions again. Store the position with what was written, then confirm
it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from headwater.connect.postgresql_cdc.cdc_position import CdcPosition, SnapshotRange
from headwater.connect.postgresql_cdc.change_stream import ChangeStream, CopyLimits
from headwater.connect.postgresql_cdc.pgoutput import decode_message
from headwater.connect.postgresql_cdc.replication_slot import (
    SlotInUse,
    SlotStatus,
    TableName,
    add_to_publication,
    check_publication,
    check_server,
    check_tables,
    create_publication,
    create_slot,
    driver_errors,
    drop_publication,
    drop_slot,
    has_publication,
    has_slot,
    query,
    slot_status,
    sql_connection,
)
from headwater.connect.postgresql_cdc.replication_stream import RETRY_DELAY_S
from headwater.connect.postgresql_cdc.row_changes import (
    RowChange,
    SourceTransaction,
    TableKeys,
    TransactionAssembler,
)
from headwater.connect.postgresql_cdc.table_snapshot import SnapshotSession, row_reads

_MAX_CHANGES: Final = 10_000


class CdcReader:
    """Reads changes of tables through a publication and a replication slot."""

    def __init__(
        self,
        uri: str,
        *,
        tables: Sequence[str],
        slot: str,
        publication: str,
        is_publication_ours: bool = True,
        slot_patience_s: float = 30,
        has_types: bool = False,
    ) -> None:
        self._uri = uri
        # Otherwise an existing publication is used as it is.
        self._is_publication_ours = is_publication_ours
        self.tables = [TableName.parse(each) for each in tables]
        self._slot = slot
        self._publication = publication
        self._slot_patience_s = slot_patience_s
        self._keys: TableKeys | None = None
        self._database: str | None = None
        self.stream = ChangeStream(
            uri,
            slot=slot,
            publication=publication,
            slot_patience_s=slot_patience_s,
            has_types=has_types,
        )

    def create(self) -> None:
        """Check server and tables, then create the publication and the slot."""
        with sql_connection(self._uri, self._slot) as connection:
            check_server(connection)
            check_tables(connection, self.tables)
            connection.commit()
            create_publication(connection, self._publication, self.tables)
            try:
                create_slot(connection, self._slot)
            except driver_errors():
                connection.rollback()
                drop_publication(connection, self._publication)
                raise

    def create_missing(self) -> None:
        """Create the publication and the slot, if they do not exist; publish added tables."""
        with sql_connection(self._uri, self._slot) as connection:
            check_server(connection)
            check_tables(connection, self.tables)
            connection.commit()
            if self._is_publication_ours:
                if not has_publication(connection, self._publication):
                    create_publication(connection, self._publication, self.tables)
                add_to_publication(connection, self._publication, self.tables)
            check_publication(connection, self._publication, self.tables)
            if not has_slot(connection, self._slot):
                create_slot(connection, self._slot)

    def check(self) -> TableKeys:
        """Check everything that reading needs; return the primary keys of the tables."""
        with sql_connection(self._uri, self._slot) as connection:
            check_server(connection)
            keys = check_tables(connection, self.tables)
            check_publication(connection, self._publication, self.tables)
            status = slot_status(connection, self._slot)
        if status.is_active:
            raise SlotInUse(f"replication slot {self._slot} is in use by another process")
        return keys

    def check_tables(self) -> TableKeys:
        """Check server and tables, before a slot exists."""
        with sql_connection(self._uri, self._slot) as connection:
            check_server(connection)
            keys = check_tables(connection, self.tables)
            if not self._is_publication_ours:
                check_publication(connection, self._publication, self.tables)
            return keys

    def keys(self) -> TableKeys:
        """The primary keys of the tables, as they are when this is called first."""
        if self._keys is None:
            with sql_connection(self._uri, self._slot) as connection:
                self._keys = check_tables(connection, self.tables)
        return self._keys

    def database(self) -> str:
        """The name of the database."""
        if self._database is None:
            with sql_connection(self._uri, self._slot) as connection:
                (row,) = query(connection, "SELECT current_database()::text AS name")
            self._database = row["name"]
        return self._database

    def drop(self) -> None:
        """Drop slot and publication, so that PostgreSQL no longer keeps the log for them."""
        self.close()
        until_s = time.monotonic() + self._slot_patience_s
        while True:
            try:
                with sql_connection(self._uri, self._slot) as connection:
                    drop_slot(connection, self._slot)
                    drop_publication(connection, self._publication)
            except SlotInUse:
                # PostgreSQL needs a moment to notice that an earlier connection was closed.
                if time.monotonic() >= until_s:
                    raise
                time.sleep(RETRY_DELAY_S)
            else:
                return

    def status(self) -> SlotStatus:
        with sql_connection(self._uri, self._slot) as connection:
            return slot_status(connection, self._slot)

    @contextmanager
    def snapshot(self) -> Iterator["OpenSnapshot"]:
        """Open a consistent snapshot of all tables; the slot must exist."""
        with closing(SnapshotSession(self._uri, self._slot, self.tables)) as session:
            names = [str(each) for each in self.tables]
            ranges = tuple(
                SnapshotRange(table=each, after=None, visible=session.visible) for each in names
            )
            position = CdcPosition(lsn=session.confirmed_lsn, tables=tuple(names), ranges=ranges)
            yield OpenSnapshot(session, self.tables, position=position)

    def read(
        self,
        position: CdcPosition,
        *,
        max_changes: int = _MAX_CHANGES,
        max_transaction_changes: int = _MAX_CHANGES,
    ) -> tuple[list[SourceTransaction], CdcPosition]:
        """Committed transactions after a position, in the order of commits, and the end.

        `max_changes` is exceeded to return a transaction whole, up to `max_transaction_changes`;
        a larger one is returned in parts. Transactions that change none of the tables are left out.
        """
        collected = _CollectedMessages()
        limits = CopyLimits(
            rows=max_changes, transaction_rows=max(max_changes, max_transaction_changes)
        )
        end = self.stream.copy(position, collected, keys=self.keys(), limits=limits)
        return collected.transactions(), end

    def confirm(self, position: CdcPosition) -> None:
        """Tell PostgreSQL that everything up to a position is stored elsewhere."""
        self.stream.confirm(position)

    def heartbeat(self, position: CdcPosition) -> CdcPosition:
        """Move a position past log that has no changes of the tables; confirm nothing.

        Other tables also fill the log that the slot holds back.
        """
        _, end = self.read(position, max_changes=1, max_transaction_changes=1)
        if end != position:
            # The connection has passed these changes.
            self.stream.close()
            return position
        return self.stream.idle_position(position)

    def close(self) -> None:
        """Close the connection, so that another process can use the slot."""
        self.stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class OpenSnapshot:
    """Rows of all tables at one moment; `position` is where the stream continues."""

    def __init__(
        self, session: SnapshotSession, tables: Sequence[TableName], *, position: CdcPosition
    ) -> None:
        self._session = session
        self._tables = tables
        self.position = position
        self.snapshot_ms = session.snapshot_ms

    def rows(self) -> Iterator[RowChange]:
        """All rows, table by table, as changes of operation READ."""
        for table in self._tables:
            relation = self._session.relation(table)
            for batch in self._session.rows(relation):
                yield from row_reads(batch, relation)


class _CollectedMessages:
    """Assembles the messages of a copy in memory."""

    def __init__(self) -> None:
        self._assembler = TransactionAssembler()
        self._found: list[SourceTransaction] = []
        self._first_order = 0

    def write(self, message: bytes, order: int = 0, table_order: int = 0) -> None:
        del table_order
        self._first_order = self._first_order or order
        transaction = self._assembler.add(decode_message(message))
        if transaction is not None:
            self._add(transaction)

    def transactions(self) -> list[SourceTransaction]:
        rest = self._assembler.unfinished()
        if rest is not None:
            self._add(rest)
        return self._found

    def _add(self, transaction: SourceTransaction) -> None:
        self._found.append(replace(transaction, first_order=self._first_order))
        self._first_order = 0
