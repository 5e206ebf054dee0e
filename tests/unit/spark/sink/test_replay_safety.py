"""Which plans send rows the same way again. The plans are as Spark 4.3 prints them."""

import pytest

from headwater.spark.exceptions import UnsafeReplay
from headwater.spark.sink.replay_safety import check_replay_safe, unstable

RELATION = "StreamingRelation headwater, [key#0, value#1, offset#4L]"


def plan(*lines: str) -> str:
    """Each line is the only input of the one before."""
    first, *others = lines
    below = [f"{'   ' * depth}+- {line}" for depth, line in enumerate(others)]
    return "\n".join(["== Physical Plan ==", first, *below, "", ""])


STABLE = {
    "no shuffle": plan("*(1) Project [key#0]", RELATION),
    "one task": plan(
        "Exchange SinglePartition, REPARTITION_BY_NUM, [plan_id=46]",
        "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=6]",
        RELATION,
    ),
    "coalesced to one task": plan(
        "Coalesce 1", "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=6]"
    ),
    "coalesced from the source": plan("Coalesce 2", RELATION),
    "by a column": plan(
        "AdaptiveSparkPlan isFinalPlan=false",
        "Exchange hashpartitioning(key#0, 3), REPARTITION_BY_NUM, [plan_id=14]",
        RELATION,
    ),
    "dealt in turn, and then by a column": plan(
        "StreamingDeduplicate [key#0], state info [ checkpoint = <unknown>]",
        "Exchange hashpartitioning(key#0, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=255]",
        "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=6]",
        RELATION,
    ),
    "by a column, with a random one beside it": plan(
        "Exchange hashpartitioning(key#0, 3), REPARTITION_BY_NUM, [plan_id=270]",
        "Project [key#0, uuid(Some(6345184482352063911)) AS u#29]",
        RELATION,
    ),
    "a table that goes to every task": plan(
        "*(1) BroadcastHashJoin [key#0], [id#9], Inner, BuildRight, false",
        "BroadcastExchange HashedRelationBroadcastMode(List(input[0, string, false]),false)",
        "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=6]",
    ),
    "text with a line end": plan(
        "*(1) Project [key#0, line\nExchange RoundRobinPartitioning(3), NOT_ONE AS x#9]", RELATION
    ),
}

TWO_INPUTS = f"""== Physical Plan ==
StreamingSymmetricHashJoin [key#0], [key#30], Inner, condition = [ leftOnly = null ]
:- Exchange hashpartitioning(key#0, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=323]
:  +- *(1) Filter isnotnull(key#0)
:     +- {RELATION}
+- Exchange hashpartitioning(_nondeterministic#30, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=32]
   +- Project [value#1, rand(2456827059917012917) AS _nondeterministic#30]
      +- {RELATION}
"""

UNSTABLE = {
    "round-robin": (
        plan("Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=6]", RELATION),
        "repartition without columns",
    ),
    "rebalanced": (
        plan(
            "Exchange RoundRobinPartitioning(2), REBALANCE_PARTITIONS_BY_NONE, [plan_id=144]",
            RELATION,
        ),
        "repartition without columns",
    ),
    "by samples": (
        plan(
            "*(2) Sort [key#0 ASC NULLS FIRST], true, 0",
            "Exchange rangepartitioning(key#0 ASC NULLS FIRST, 3), ENSURE_REQUIREMENTS, [id=1]",
            RELATION,
        ),
        "by samples",
    ),
    "by a random number": (
        plan(
            "Project [key#0]",
            "Exchange hashpartitioning(_nondeterministic#37, 3), REPARTITION_BY_NUM, [plan_id=37]",
            "Project [key#0, rand(2456827059917012917) AS _nondeterministic#37]",
            RELATION,
        ),
        "column that is random",
    ),
    "grouped by what is made of a random number": (
        plan(
            "*(4) HashAggregate(keys=[r#8], functions=[count(1)])",
            "Exchange hashpartitioning(r#8, 2), REQUIRED_BY_STATEFUL_OPERATOR, [plan_id=109]",
            "*(1) HashAggregate(keys=[cast((x#7 * 10.0) as int) AS r#8], functions=[count(1)])",
            "*(1) Project [substring(value#1, 1, 3) AS v#6, rand(3027700756145162786) AS x#7]",
            RELATION,
        ),
        "column that is random",
    ),
    "one of two inputs": (TWO_INPUTS, "column that is random"),
    "a reused shuffle": (
        plan(
            "ReusedExchange [key#30], Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [p=3]"
        ),
        "repartition without columns",
    ),
    "coalesced after a shuffle": (
        plan(
            "Coalesce 2",
            "Exchange hashpartitioning(key#0, 8), REPARTITION_BY_NUM, [plan_id=14]",
            RELATION,
        ),
        "coalesce after a shuffle",
    ),
    "adapted": (
        plan(
            "AdaptiveSparkPlan isFinalPlan=false",
            "Exchange hashpartitioning(key#0, 2), REPARTITION_BY_COL, [plan_id=22]",
            RELATION,
        ),
        "spark.sql.adaptive",
    ),
}


@pytest.mark.parametrize("name", STABLE)
def test_a_repeated_batch_goes_the_same_way_with(name: str) -> None:
    assert unstable(STABLE[name]) is None


@pytest.mark.parametrize("name", UNSTABLE)
def test_a_repeated_batch_may_go_another_way_if_rows_are_dealt(name: str) -> None:
    text, reason = UNSTABLE[name]
    assert reason in str(unstable(text))


def test_the_refusal_is_one_line_with_advice() -> None:
    text, _ = UNSTABLE["round-robin"]
    with pytest.raises(UnsafeReplay, match=r"repartition\(n, \"key\"\)") as refused:
        check_replay_safe(text)
    assert "\n" not in str(refused.value)
