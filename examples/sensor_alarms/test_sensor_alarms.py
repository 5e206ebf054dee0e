"""An alarm needs a hot minute."""

from headwater.testing import PipelineTestFactory


def reading(sensor: str, second: int, celsius: float) -> dict[str, object]:
    return {"sensor": sensor, "celsius": celsius, "at": f"2026-01-01T10:00:{second:02}Z"}


def test_an_outlier_is_no_alarm_and_a_hot_minute_is_one(
    pipeline_test: PipelineTestFactory,
) -> None:
    pipeline = pipeline_test("sensor-alarms.yaml")
    pipeline.feed("readings", [reading("fan", 0, 20.0), reading("fan", 30, 99.0)])
    pipeline.feed("readings", [reading("boiler", 0, 95.0), reading("boiler", 30, 92.0)])
    result = pipeline.advance_watermark("2026-01-01T10:01:00Z").run()
    assert result["alarms"].select("sensor", "celsius") == [{"sensor": "boiler", "celsius": 93.5}]
    assert result["minutes"].select("sensor", "readings") == [
        {"sensor": "fan", "readings": 2},
        {"sensor": "boiler", "readings": 2},
    ]
