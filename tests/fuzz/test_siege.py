"""Random and mutated frames leave the broker up, its memory bounded and its data unharmed."""

from headwater.testing import EmbeddedBroker
from tests.fuzz.siege import besiege


def test_bad_frames_harm_nobody_else() -> None:
    with EmbeddedBroker() as broker:
        besiege(broker, frames=15_000, seed=1, say=print)
        assert "failed" not in broker.log_text
