"""Random and mutated frames leave the broker running, with bounded memory and intact data."""

from headwater.testing import EmbeddedBroker
from tests.fuzz.siege import besiege


def test_malformed_frames_do_not_harm_the_broker() -> None:
    with EmbeddedBroker() as broker:
        besiege(broker, frames=15_000, seed=1, say=print)
        assert "failed" not in broker.log_text
