"""Page: hanging transactions, open transactions, and transactional ids."""

from headwater.console.html import Child, Html, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    counted,
    empty,
    name_link,
    number,
    pager,
    search_form,
    section,
    table,
    typed_confirmation,
)
from headwater.console.times import age_text
from headwater.console.views.transactions import (
    OpenTransactionRow,
    TransactionRow,
    TransactionsView,
)

_WAITING_SHOWN_MAX = 200


def transactions_page(page_data: TransactionsView, frame: Frame) -> Html:
    return frame.page(
        "Transactions",
        _health(page_data),
        section("Open in partitions", _waiting(page_data, frame)),
        section(
            "Transactional ids",
            search_form("/transactions", page_data.search, "Search transactional ids"),
            _ids(page_data, frame),
        ),
        place="transactions",
        is_live=True,
    )


def _health(page_data: TransactionsView) -> Child:
    hanging = sum(each.hangs for each in page_data.waiting)
    notes = [tag("p", text, class_="notice warn") for text in page_data.complaints]
    if page_data.partitions_asked < page_data.all_partitions:
        text = (
            f"Only {page_data.partitions_asked} of {page_data.all_partitions} partitions "
            "were checked."
        )
        notes.append(tag("p", text, class_="notice warn"))
    if hanging:
        what = counted(hanging, "hanging transaction")
        text = (
            f"{what} that no coordinator will complete. read_committed consumers are blocked there."
        )
        return (notes, tag("p", text, class_="notice bad", role="alert"))
    return (
        notes,
        tag("p", "There are no hanging transactions.", class_="notice good", role="status"),
    )


def _waiting(page_data: TransactionsView, frame: Frame) -> Child:
    if not page_data.waiting:
        return empty("No partition has an open transaction.")
    return table(
        [
            ("Partition", ""),
            ("Since offset", "num"),
            ("Last write", ""),
            ("Transactional id", ""),
            ("Producer", "num wide"),
            ("", ""),
        ],
        [_waiting_row(each, frame) for each in page_data.waiting[:_WAITING_SHOWN_MAX]],
        label="Open transactions",
    )


def _waiting_row(row: OpenTransactionRow, frame: Frame) -> tuple[Child, ...]:
    return (
        name_link(f"{row.topic}-{row.partition}", "topics", row.topic),
        number(row.start_offset),
        f"{age_text(row.age_ms)} ago",
        tag("span", row.id, class_="value")
        if row.id is not None
        else tag("span", "unknown to every coordinator", class_="quiet"),
        number(row.producer_id),
        (badge("hanging", "bad"), _abort(row, frame)) if row.hangs else badge("ongoing"),
    )


def _abort(row: OpenTransactionRow, frame: Frame) -> Child:
    if frame.is_read_only:
        return None
    hidden: dict[str, str | int] = {
        "topic": row.topic,
        "partition": row.partition,
        "producer_id": row.producer_id,
    }
    return tag(
        "details",
        tag("summary", "Abort"),
        frame.form(
            "/transactions/abort",
            [tag("input", type="hidden", name=key, value=value) for key, value in hidden.items()],
            tag("p", "read_committed consumers will not see its records in this partition."),
            typed_confirmation(str(row.producer_id), "Abort the transaction"),
            class_="stack",
        ),
    )


def _ids(page_data: TransactionsView, frame: Frame) -> Child:
    if not page_data.transactions.rows:
        if page_data.search:
            return empty(f"No transactional id matches '{page_data.search}'.")
        return empty("No producer has used a transactional id.")
    return (
        table(
            [
                ("Transactional id", ""),
                ("State", ""),
                ("Age", "num"),
                ("Timeout", "num wide"),
                ("Producer", "num wide"),
                ("Partitions", "num"),
            ],
            [_id_row(row) for row in page_data.transactions.rows],
            label="Transactional ids",
        ),
        pager(page_data.transactions, ["transactions"], frame.query),
    )


def _id_row(row: TransactionRow) -> tuple[Child, ...]:
    kinds = {"Ongoing": "accent", "CompleteCommit": "good", "CompleteAbort": "", "Empty": ""}
    complaint = badge("unknown", "bad") if row.complaint else None
    return (
        tag("span", row.id, class_="value"),
        (badge(row.state, kinds.get(row.state, "warn")), complaint),
        "-" if row.age_ms is None or row.state != "Ongoing" else age_text(row.age_ms),
        "-" if row.timeout_ms is None else age_text(row.timeout_ms),
        number(row.producer_id),
        tag("span", len(row.partitions), title=", ".join(row.partitions[:50]) or None),
    )
