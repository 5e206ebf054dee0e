"""A peak becomes few rows, each in the database once."""

from headwater.testing import PipelineTestFactory


def test_a_peak_is_one_row_per_page_and_minute(pipeline_test: PipelineTestFactory) -> None:
    pipeline = pipeline_test("click-log.yaml")
    peak = [
        {"page": f"/{number % 3}", "visitor": f"v{number % 10}", "at": "2026-01-01T08:00:30Z"}
        for number in range(3_000)
    ]
    pipeline.feed("clicks", peak).advance_watermark("2026-01-01T08:01:00Z")
    result = pipeline.run()
    assert result["clicks-per-minute"].select("page", "clicks", "visitors") == [
        {"page": f"/{number}", "clicks": 1_000, "visitors": 10} for number in range(3)
    ]
    assert pipeline.run()["database"].select("page", "clicks") == [
        {"page": f"/{number}", "clicks": 1_000} for number in range(3)
    ]
