"""Members of a classic group: active, pending, the leader, and common protocols.

Members are in order of arrival, and every choice among them follows that order, so that the same
events always give the same group.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group_member import ClassicGroupMember


@dataclass(slots=True)
class ClassicGroupMembers:
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """Current member id of each static instance."""
    pending: dict[str, int] = field(default_factory=dict)
    """Member ids that were handed out and not used yet, with their deadlines."""
    leader: str | None = None

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self.members

    def get(self, member_id: str) -> ClassicGroupMember | None:
        return self.members.get(member_id)

    def all(self) -> tuple[ClassicGroupMember, ...]:
        """Return a copy, since the caller may remove members while iterating."""
        return tuple(self.members.values())

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one becomes leader (GR-6)."""
        instance_id = member.group_instance_id
        assert instance_id is None or instance_id not in self.instances
        if instance_id is not None:
            self.instances[instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        self.pending.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.group_instance_id is not None:
            del self.instances[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, old_id: str, new: ClassicGroupMember) -> None:
        """Replace a static member that rejoined under a new id (GR-14)."""
        self.members = {
            new.member_id if member_id == old_id else member_id: (
                new if member_id == old_id else member
            )
            for member_id, member in self.members.items()
        }
        assert new.group_instance_id is not None
        self.instances[new.group_instance_id] = new.member_id
        if self.leader == old_id:
            self.leader = new.member_id

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return why this is not a member, or NONE if it is.

        An instance that is known under another id is fenced, whether or not that id exists (GR-14).
        """
        if group_instance_id is not None:
            current_id = self.instances.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining_count(self) -> int:
        return sum(member.joining is not None for member in self.members.values())

    @property
    def have_all_joined(self) -> bool:
        """Whether all members have joined; pending ids are waited for too."""
        return not self.pending and self.joining_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of all members (GR-4)."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Keep the leader if it has joined, else elect the first member that has (GR-6)."""
        leader = None if self.leader is None else self.members.get(self.leader)
        if leader is not None and leader.joining is not None:
            return True
        joined = (m.member_id for m in self.members.values() if m.joining is not None)
        elected = next(joined, None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def supports_any(self, names: Iterable[str]) -> bool:
        """Return whether all members support at least one of these protocols (GR-3)."""
        counts = self._supporters()
        return any(counts.get(name, 0) == len(self.members) for name in names)

    def choose_protocol(self) -> str:
        """Return the common protocol with most votes; on a tie, the one voted for first."""
        counts = self._supporters()
        candidates = [name for name, count in counts.items() if count == len(self.members)]
        votes: dict[str, int] = {}
        for member in self.members.values():
            voted = member.vote(candidates)
            assert voted is not None, "a member has no protocol in common with the others"
            votes[voted] = votes.get(voted, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _supporters(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for member in self.members.values():
            for name in dict.fromkeys(offered.name for offered in member.protocols):
                counts[name] = counts.get(name, 0) + 1
        return counts
