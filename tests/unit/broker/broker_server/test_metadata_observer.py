"""A broker's replica of the metadata log, in a simulated cluster."""

import pytest

from tests.simulation.labs.kraft_lab import METADATA, KRaftLab


@pytest.mark.parametrize("has_own_snapshot", [True, False])
def test_a_broker_starts_from_a_snapshot_that_no_record_follows(has_own_snapshot: bool) -> None:
    lab = KRaftLab(1, 1)
    (controller,), (node,) = lab.controllers, lab.nodes
    node.stop()
    lab.run(20_000)
    assert not node.is_up
    assert controller.loader.snapshot() is not None
    controller.raft.client.clean_log()
    if not has_own_snapshot:
        node.disk.remove_tree(METADATA)
        node.disk.make_directory(METADATA)
        lab.format(node.node_id, node.disk, (METADATA,), voter=False)
    node.start()
    lab.run(5_000)
    if has_own_snapshot:
        # It has a snapshot of its own now, up to the end of an idle log.
        node.crash()
        lab.run(5_000)
        node.start()
        lab.run(5_000)
    assert node.has_joined
