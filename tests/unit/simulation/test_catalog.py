"""The simulators by name, and how a failing seed is told."""

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.simulation import catalog, night
from tests.simulation.__main__ import lived, main
from tests.simulation.catalog import SIMULATORS, named


@dataclass
class Outcome:
    failure: str | None
    trace: list[str] = field(default_factory=lambda: ["step one"])


def test_a_part_of_a_name_chooses_all_that_have_it() -> None:
    assert [*named("groups")] == ["classic-groups", "consumer-groups", "mixed-groups"]
    assert len(named("")) > len(named("groups"))


def test_every_simulator_that_runs_from_a_seed_is_known_by_name() -> None:
    """Else neither `make sim` nor a night would ever run it."""
    folder = Path(catalog.__file__).parent / "simulators"
    runners = {
        path.stem
        for path in folder.glob("*.py")
        if re.search(r"^def run\(\s*seed: int", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    known = {inspect.getmodule(each) for each in SIMULATORS.values()}
    assert runners == {module.__name__.rpartition(".")[2] for module in known if module}


def test_failing_seed_is_reported_with_its_replay_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not lived("offsets", lambda _: Outcome("it broke"), 7, shows_trace=False)
    told = capsys.readouterr().out
    assert "step one" in told
    assert "it broke" in told
    assert "make sim SIM=offsets SEED=7" in told


def test_a_seed_that_holds_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offsets", "--seed", "3"]) == 0
    assert "every check held" in capsys.readouterr().out


def test_a_night_counts_its_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["offsets", "--minutes", "0.02", "--processes", "1", "--seed", "1"]
    assert night.main(arguments) == 0
    told = capsys.readouterr().out
    assert "seeds of offsets" in told
    assert "every check held" in told
