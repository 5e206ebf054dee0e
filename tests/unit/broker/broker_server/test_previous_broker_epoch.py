"""PreviousBrokerEpoch: a broker proves that it stopped cleanly (KIP-966)."""

from headwater.common.ids import NO_EPOCH
from headwater.protocol.messages.broker_registration import BrokerRegistrationRequest
from headwater.storage.log_manager.clean_shutdown_file import FILE_NAME
from tests.simulation.labs.kraft_lab import KRaftBroker, KRaftLab
from tests.simulation.labs.lab_node import DIRECTORIES


def restarted(lab: KRaftLab, node: KRaftBroker) -> int:
    """Start a broker and return the PreviousBrokerEpoch of its registration."""
    sent: list[int] = []
    (controller,) = lab.controllers
    register = controller.services.active_controller.register_broker

    def note(request: BrokerRegistrationRequest, **others: object) -> None:
        sent.append(request.previous_broker_epoch)
        register(request, **others)  # type: ignore[arg-type]

    controller.services.active_controller.register_broker = note  # type: ignore[method-assign]
    node.start()
    lab.run(5_000)
    assert node.has_joined
    return sent[0]


def test_a_clean_stop_is_proved_with_the_last_broker_epoch() -> None:
    lab = KRaftLab(2, 1)
    node = lab.nodes[1]
    epoch = node.broker_epoch
    node.stop()
    lab.run(5_000)
    assert not node.is_up
    assert restarted(lab, node) == epoch


def test_there_is_no_proof_after_a_kill_or_a_power_cut() -> None:
    lab = KRaftLab(2, 1)
    node = lab.nodes[1]
    for loses_power in (False, True):
        # The proof of an earlier stop is gone before the first append, durably.
        assert not any(node.disk.status(path / FILE_NAME) for path in DIRECTORIES)
        node.crash(loses_power=loses_power)
        lab.run(5_000)
        assert restarted(lab, node) == NO_EPOCH
