"""Answer DescribeTransactions and ListTransactions.

Note: an id pattern is matched with the automaton for topic names, since Python's `re` could take
forever. Ids may contain other characters; these all count as underscores, in the pattern and in the
id.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidPattern
from headwater.common.ids import TopicPartition
from headwater.coordinator.topic_regex.syntax_tree import ALPHABET
from headwater.coordinator.topic_regex.topic_pattern import TopicPattern
from headwater.coordinator.transaction.transaction_metadata import TransactionMetadata
from headwater.coordinator.transaction.transaction_states import (
    TransactionState,
    state_of_label,
)
from headwater.protocol.messages import describe_transactions, list_transactions
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_PLAIN: Final = frozenset(ALPHABET)
_SYNTAX: Final = frozenset("\\^$.|?*+()[]{},")
_OTHER: Final = "_"
_TOKEN: Final = re.compile(
    r"""\\.                    # an escaped character
    |   \(\?P?<\w+>            # the beginning of a group that has a name
    |   \(\?[A-Za-z-]*[:)]     # or flags
    |   \[:\^?\w+:\]           # a class that has a name
    |   .                      # anything else""",
    re.VERBOSE | re.DOTALL,
)


def describe(
    transactional_id: str,
    transaction: TransactionMetadata | None,
    partitions: Iterable[TopicPartition],
) -> describe_transactions.TransactionState:
    """Describe one id; if prepared, with the partitions that lack their marker."""
    if transaction is None:
        unknown, invalid = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST
        return describe_transactions.TransactionState(
            error_code=unknown if transactional_id else invalid, transactional_id=transactional_id
        )
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=tuple(
            describe_transactions.TopicData(topic=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic.items()
        ),
    )


class _Filters(NamedTuple):
    states: tuple[TransactionState, ...] | None
    producer_ids: tuple[int, ...]
    duration_ms: int
    pattern: TopicPattern | None

    def matches(self, transaction: TransactionMetadata, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        if self.duration_ms >= 0 and now_ms - transaction.start_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.matches(_plain_id(transaction.transactional_id))


def list_matching(
    request: ListTransactionsRequest, transactions: Iterable[TransactionMetadata], *, now_ms: int
) -> ListTransactionsResponse:
    """Return transactions that match all filters. An empty filter matches all."""
    regex = request.transactional_id_pattern
    try:
        pattern = TopicPattern(_plain_regex(regex)) if regex else None
    except InvalidPattern as error:
        return ListTransactionsResponse(error_code=error.code)
    known = {label: state_of_label(label) for label in request.state_filters}
    states = tuple(state for state in known.values() if state is not None)
    filters = _Filters(
        states if request.state_filters else None,
        request.producer_id_filters,
        request.duration_filter,
        pattern,
    )
    return ListTransactionsResponse(
        unknown_state_filters=tuple(label for label, state in known.items() if state is None),
        transaction_states=tuple(
            list_transactions.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transaction in transactions
            if filters.matches(transaction, now_ms)
        ),
    )


def _plain_id(transactional_id: str) -> str:
    return "".join(each if each in _PLAIN else _OTHER for each in transactional_id)


def _plain_regex(regex: str) -> str:
    """Replace other characters by underscores but keep the syntax of the expression."""
    return _TOKEN.sub(_plain_token, regex)


def _plain_token(found: re.Match[str]) -> str:
    token = found.group()
    if len(token) == 1:
        return token if token in _PLAIN or token in _SYNTAX else _OTHER
    if token[0] == "\\":
        return token if token[1] in _PLAIN else _OTHER
    return token


def merge_lists(responses: Iterable[ListTransactionsResponse]) -> ListTransactionsResponse:
    """Merge the responses of all shards; an error of one shard is the error of all."""
    merged = tuple(responses)
    for response in merged:
        if response.error_code:
            return ListTransactionsResponse(error_code=response.error_code)
    return ListTransactionsResponse(
        unknown_state_filters=merged[0].unknown_state_filters if merged else (),
        transaction_states=tuple(
            state for response in merged for state in response.transaction_states
        ),
    )
