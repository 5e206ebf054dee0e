"""A warning goes to the ward where the patient is now."""

from headwater.testing import PipelineTestFactory


def rate(minute: int, bpm: int) -> dict[str, object]:
    return {"patient": "p1", "bpm": bpm, "at": f"2026-01-01T10:{minute:02}:30Z"}


def test_three_minutes_outside_the_range_are_a_warning(pipeline_test: PipelineTestFactory) -> None:
    pipeline = pipeline_test("patient-monitoring.yaml")
    pipeline.feed("patients", [{"patient_id": "p1", "ward": "A", "low": 50, "high": 120}])
    pipeline.feed("heart_rates", [rate(0, 80), rate(1, 140), rate(2, 150)])
    assert pipeline.advance_watermark("2026-01-01T10:03:00Z").run()["ward-warnings"] == []

    pipeline.feed("patients", [{"patient_id": "p1", "ward": "ICU", "low": 50, "high": 120}])
    pipeline.feed("heart_rates", [rate(3, 145)])
    result = pipeline.advance_watermark("2026-01-01T10:04:00Z").run()
    assert result["ward-warnings"] == [
        {
            "patient": "p1",
            "ward": "ICU",
            "until": "2026-01-01T10:04:00.000Z",
            "lowest": 140,
            "highest": 150,
        }
    ]
