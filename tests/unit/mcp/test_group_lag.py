"""Why a group is behind: one cause for each kind of evidence."""

import pytest

from headwater.mcp.group_lag import ObservedGroup, ObservedPartition, lag_causes


def partition(
    number: int = 0,
    *,
    offset: int | None = 0,
    start: int | None = 0,
    end: int | None = 100,
    stable_end: int | None = None,
    owner: str | None = "c1",
    committed: int = 0,
    produced: int = 0,
) -> ObservedPartition:
    return ObservedPartition(
        name=f"tea-{number}",
        offset=offset,
        start=start,
        end=end,
        stable_end=end if stable_end is None else stable_end,
        owner=owner,
        committed_records=committed,
        produced_records=produced,
    )


def group(
    *partitions: ObservedPartition, state: str = "Stable", members: int = 1, seconds: float = 0.0
) -> ObservedGroup:
    return ObservedGroup(
        group="g", state=state, members=members, partitions=partitions, seconds=seconds
    )


@pytest.mark.parametrize(
    ("found", "causes"),
    [
        (group(members=0, state="Empty"), ["never-committed"]),
        (group(partition(offset=100)), ["no-lag"]),
        (group(partition(owner=None), members=0, state="Empty"), ["no-members"]),
        (group(partition(owner=None, offset=100), members=0, state="Empty"), ["no-lag"]),
        (group(partition(), state="PreparingRebalance"), ["rebalance"]),
        (group(partition(), state="Reconciling"), ["rebalance"]),
        (group(partition(end=None)), ["no-leader"]),
        (group(partition(offset=5, start=10)), ["behind-retention"]),
        (group(partition(offset=200)), ["beyond-end"]),
        (group(partition(owner=None)), ["unassigned-partitions"]),
        (group(partition(offset=50, stable_end=50)), ["open-transaction"]),
        (group(partition()), ["unknown"]),
        (group(partition(), seconds=6), ["no-progress"]),
        # A consumer commits every five seconds: two seconds prove nothing.
        (group(partition(), seconds=2), ["unknown"]),
        (group(partition(committed=10, produced=20), seconds=6), ["too-slow"]),
        (group(partition(committed=20, produced=10), seconds=6), ["catching-up"]),
        (
            group(
                partition(0, end=1000, committed=20),
                partition(1, offset=100, committed=20),
                partition(2, offset=100, committed=20),
                seconds=6,
            ),
            ["catching-up", "one-partition"],
        ),
        (
            group(partition(0), partition(1, committed=10, produced=20), seconds=6),
            ["no-progress", "too-slow"],
        ),
    ],
)
def test_the_causes_follow_from_the_evidence(found: ObservedGroup, causes: list[str]) -> None:
    assert [each.cause for each in lag_causes(found)] == causes


def test_evidence_has_the_numbers_and_advice_fits_the_group() -> None:
    [lost] = lag_causes(group(partition(offset=5, start=10)))
    assert lost.evidence == "5 records were deleted before the group read them: tea-0."
    slow = group(partition(committed=60, produced=120), seconds=6)
    [cause] = lag_causes(slow)
    assert cause.evidence.startswith("10 records/s are committed and 20 records/s produced")
    assert cause.next_step.startswith("Every partition has a member of its own")
    fast = group(partition(committed=120, produced=60), seconds=6)
    assert lag_causes(fast)[0].next_step.endswith("in about 10 s.")


def test_long_lists_of_partitions_are_shortened() -> None:
    [cause] = lag_causes(group(*(partition(each, owner=None) for each in range(12))))
    assert cause.evidence.endswith("tea-9 and 2 more.")
