"""Row counts of a connector's query."""

from headwater.connect.connect_job import MovedRows


def batch_progress(batch_id: int, rows: int) -> dict[str, object]:
    return {"batchId": batch_id, "numInputRows": rows}


def test_rows_of_a_batch_are_counted_once() -> None:
    moved = MovedRows()
    moved.count([batch_progress(0, 5), batch_progress(1, 3)])
    moved.count([batch_progress(1, 3), batch_progress(2, 4)])
    assert moved.rows == 12


def test_trigger_without_rows_does_not_hide_the_next_batch() -> None:
    moved = MovedRows()
    moved.count([batch_progress(0, 5), batch_progress(1, 0)])
    moved.count([batch_progress(0, 5), batch_progress(1, 0), batch_progress(1, 7)])
    assert moved.rows == 12
