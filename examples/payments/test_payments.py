"""No payment is lost or booked twice."""

from headwater.testing import PipelineTestFactory


def payment(number: int, cents: int) -> dict[str, object]:
    return {"account": "a1", "id": f"p{number}", "payee": "shop", "cents": cents}


def test_a_payment_that_is_sent_again_is_booked_once(pipeline_test: PipelineTestFactory) -> None:
    pipeline = pipeline_test("payments.yaml")
    at = {"at": "2026-01-01T10:00:00Z"}
    first = [payment(1, 500) | at, payment(1, 500) | at, payment(2, 2_000_000) | at]
    pipeline.feed("payments", first).crash()
    pipeline.feed("payments", [payment(1, 500) | at, payment(3, 700) | at])
    result = pipeline.run()
    assert result["bookings"].select("id", "cents") == [
        {"id": "p1", "cents": 500},
        {"id": "p3", "cents": 700},
    ]
    assert result["held-payments"].select("id", "reason") == [
        {"id": "p2", "reason": "above the limit"}
    ]
