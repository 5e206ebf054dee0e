"""Positions that arrive out of order, speeds by window, and an alarm."""

from headwater.testing import PipelineTestFactory


def position(minute: int, lat: float, kmh: float) -> dict[str, object]:
    at = f"2026-01-01T10:{minute:02}:00Z"
    return {"vehicle": "truck-7", "lat": lat, "lon": 13.40, "kmh": kmh, "at": at}


def test_the_latest_position_is_kept_although_an_older_one_comes_later(
    pipeline_test: PipelineTestFactory,
) -> None:
    pipeline = pipeline_test("vehicle-tracking.yaml")
    pipeline.feed("positions", [position(3, 52.60, 60.0)]).restart()
    pipeline.feed("positions", [position(1, 52.55, 40.0), position(4, 52.90, 80.0)])
    result = pipeline.advance_watermark("2026-01-01T10:05:00Z").run()
    latest = result["vehicle-positions"].latest()
    assert (latest["truck-7"]["lat"], latest["truck-7"]["at"]) == (
        52.90,
        "2026-01-01T10:04:00.000Z",
    )
    assert result["speeds"].select("average_kmh", "highest_kmh") == [
        {"average_kmh": 60.0, "highest_kmh": 80.0}
    ]
    assert result["vehicle-alarms"].select("vehicle", "km") == [{"vehicle": "truck-7", "km": 42.3}]
