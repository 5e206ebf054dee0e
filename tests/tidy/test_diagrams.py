"""The committed diagrams are what their script draws."""

import runpy
from pathlib import Path

DIAGRAMS = Path(__file__).parents[2] / "docs" / "diagrams"


def test_every_committed_diagram_is_what_its_script_draws() -> None:
    drawings = runpy.run_path(str(DIAGRAMS / "draw.py"))["DRAWINGS"]
    assert {name: draw().svg() for name, draw in drawings.items()} == {
        path.stem: path.read_text() for path in DIAGRAMS.glob("*.svg")
    }
