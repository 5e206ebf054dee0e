"""Each registration is one text message, also after a crash."""

from headwater.testing import PipelineTestFactory


def test_a_registration_is_one_text_message(pipeline_test: PipelineTestFactory) -> None:
    pipeline = pipeline_test("registration.yaml")
    pipeline.feed(
        "registrations",
        [
            {"user": "ada", "phone": "+44 1", "language": "en"},
            {"user": "max", "phone": "+49 2", "language": "de"},
            {"user": "eve"},
            "not JSON",
        ],
    )
    result = pipeline.crash().run()
    assert result["sms"] == [
        {"phone": "+44 1", "text": "Welcome, ada"},
        {"phone": "+49 2", "text": "Willkommen, max"},
    ]
    assert result.dead_letters.select("value") == [{"value": "not JSON"}]
