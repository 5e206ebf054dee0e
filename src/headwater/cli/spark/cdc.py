"""`headwater connect cdc`: replication slots and publications.

A slot that is no longer read makes PostgreSQL keep its log until the disk is full.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.terminal import AsJson, exit_on_error, show, show_done

if TYPE_CHECKING:
    from headwater.connect.postgresql_cdc.cdc_reader import CdcReader

app = typer.Typer(no_args_is_help=True, help="Manage replication slots for change data capture.")

Uri = Annotated[str, typer.Option(help="Database, such as postgresql://user@host/database.")]
Slot = Annotated[str, typer.Option(help="Replication slot.")]
Publication = Annotated[
    str | None, typer.Option(help="Publication; default: the name of the slot.")
]
Tables = Annotated[
    list[str], typer.Option("--table", help="Table to capture, schema.table; repeatable.")
]


@app.command("create-slot")
def create_slot(
    uri: Uri,
    table: Tables,
    slot: Slot = "headwater",
    publication: Publication = None,
    as_json: AsJson = False,
) -> None:
    """Create a publication of tables and a replication slot.

    An import creates both by itself; use this if its user may not.
    """
    with exit_on_error():
        _reader(uri, table, slot, publication).create()
    show_done([{"slot": slot, "publication": publication or slot}], as_json=as_json)


@app.command("drop-slot")
def drop_slot(
    uri: Uri,
    slot: Slot = "headwater",
    publication: Publication = None,
    as_json: AsJson = False,
) -> None:
    """Drop a replication slot and its publication, so that PostgreSQL frees the log."""
    with exit_on_error():
        _reader(uri, [], slot, publication).drop()
    show_done([{"slot": slot, "publication": publication or slot}], as_json=as_json)


@app.command("status")
def status(uri: Uri, slot: Slot = "headwater", as_json: AsJson = False) -> None:
    """Show how far a slot is confirmed and how much log it holds back."""
    with exit_on_error():
        from headwater.connect.postgresql_cdc.pgoutput import format_lsn

        found = _reader(uri, [], slot, None).status()
        row = {
            "slot": slot,
            "active": found.is_active,
            "confirmed_lsn": format_lsn(found.confirmed_flush_lsn),
            "wal_status": found.wal_status,
            "retained_bytes": found.retained_bytes,
        }
    show([row], as_json=as_json, columns=list(row))


def _reader(uri: str, tables: list[str], slot: str, publication: str | None) -> "CdcReader":
    from headwater.connect.postgresql_cdc.cdc_reader import CdcReader

    return CdcReader(uri, tables=tables, slot=slot, publication=publication or slot)
