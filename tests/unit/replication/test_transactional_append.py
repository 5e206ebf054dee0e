"""Verification of transactions across leader changes."""

import pytest

from headwater.common.exceptions import InvalidTxnState
from headwater.common.ids import NodeId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import PartitionChanged
from headwater.replication.transaction_verification import VerificationRequest
from headwater.replication.transactional_append import begin_verification, check_verification
from tests.simulation.labs.broker_lab import START_MS, BrokerLab

PRODUCER = 7


def test_a_verification_before_a_leader_change_is_void() -> None:
    """Its marker may have been written meanwhile, and no other one would follow (TX-13)."""
    lab = BrokerLab()
    lab.create("t")
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    log = hosted.open_log()
    ticket = begin_verification(
        hosted, PRODUCER, epoch=0, sequence=0, request=VerificationRequest.VERIFY, now_ms=START_MS
    )
    check_verification(hosted, log, ticket, producer_id=PRODUCER, epoch=0, sequence=0)
    here = hosted.state.leader
    lab.change(PartitionChanged("t", 0, led_by(hosted.state, NodeId(9), hosted.state.isr)))
    lab.change(PartitionChanged("t", 0, led_by(hosted.state, here, hosted.state.isr)))
    with pytest.raises(InvalidTxnState):
        check_verification(hosted, log, ticket, producer_id=PRODUCER, epoch=0, sequence=0)
    newer = begin_verification(
        hosted, PRODUCER, epoch=0, sequence=0, request=VerificationRequest.VERIFY, now_ms=START_MS
    )
    with pytest.raises(InvalidTxnState):
        check_verification(hosted, log, ticket, producer_id=PRODUCER, epoch=0, sequence=0)
    check_verification(hosted, log, newer, producer_id=PRODUCER, epoch=0, sequence=0)
