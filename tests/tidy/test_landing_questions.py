"""The landing questions: what a newcomer should find by file name alone."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "tests" / "tidy" / "landing_questions.toml"


def test_every_landing_question_names_files_that_exist() -> None:
    questions = tomllib.loads(QUESTIONS.read_text())["question"]
    assert len(questions) == 40
    missing = [
        file for question in questions for file in question["files"] if not (ROOT / file).is_file()
    ]
    assert missing == []
