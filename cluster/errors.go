package cluster

import (
	"errors"
	"fmt"
)

// Callers tell four cases apart with errors.Is and errors.As: nothing has happened and another
// member can do it (NotLeaderError), nobody knows whether it happened (ErrUnknown), this member is
// of no use any more (ErrFailed, ErrClosed, ErrDiffers, ErrLost), and the operator has to change
// something (the others).

// Errors of writes.
var (
	// ErrNotLeader is what errors.Is finds in a NotLeaderError: this member does
	// not lead, and the write has certainly not happened.
	ErrNotLeader = errors.New("cluster: this member is not the leader")

	// ErrUnknown is wrapped when a write may have happened or not, now or later:
	// the leadership was lost, the context ended or the member stopped after the
	// write had been handed to the group. The cause is wrapped too. A write that
	// may happen twice without harm, such as a Put, can simply be tried again.
	// For others, read first.
	ErrUnknown = errors.New("cluster: it is unknown whether the write happened")

	// ErrReservedKey is wrapped when a key begins with 32 bytes 0xff. The group
	// keeps its own entries there.
	ErrReservedKey = errors.New("cluster: keys that begin with 32 bytes 0xff are reserved")

	// ErrReadTooMuch is wrapped by the error of an Update whose function has read more than 65,536
	// keys and ranges, or more than 64 MiB of keys and values: all members check what was read. They
	// do not check what is read by way of Untracked, and that has no limit.
	ErrReadTooMuch = errors.New("cluster: the transaction has read too much")
)

// Errors of a member's life.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("cluster: the member is closed")

	// ErrFailed is wrapped by every call after an error of the disk, or a fault of raft, has stopped
	// the member. Err returns the cause. Close it, look after the disk if that is the cause, and open it again.
	ErrFailed = errors.New("cluster: the member has failed")

	// ErrLost is wrapped by the error of Open when the member's log is damaged or missing, or has less than what the
	// member has acknowledged. If it went on under its name, it could help to elect a leader that lacks acknowledged
	// writes, or vote twice in a term. Remove the member at the leader, put its directory aside, and let it join again
	// with an empty one.
	ErrLost = errors.New("cluster: the member has lost what it had acknowledged")

	// ErrDiffers is wrapped by Err when the member has come to another state than the majority of
	// its group, and by Open of its directory afterwards. Remove the member at the leader, put its
	// directory aside, and let it join again with an empty one.
	ErrDiffers = errors.New("cluster: the member's state differs from that of the other members")

	// ErrIDTaken is wrapped when a member can't join, or found a group, because another directory has its
	// id, or because a member with its directory's identity runs somewhere else. Use
	// another id, or Remove the old member first.
	ErrIDTaken = errors.New("cluster: the id belongs to another directory")

	// ErrOtherGroup is wrapped when two members of different groups meet.
	ErrOtherGroup = errors.New("cluster: member of another group")
)

// A NotLeaderError says that the write did not happen because this member does not
// lead, and who does as far as it knows. errors.Is(err, [ErrNotLeader]) holds.
type NotLeaderError struct {
	ID      string // the leader's id, "" when no leader is known
	Address string // its address for members, Options.Advertise
}

// Error names the leader, if there is one.
func (e *NotLeaderError) Error() string {
	if e.ID == "" {
		return ErrNotLeader.Error() + ", and it knows of none at the moment"
	}
	return fmt.Sprintf("%v: it is %q at %s", ErrNotLeader, e.ID, e.Address)
}

// Is lets errors.Is find [ErrNotLeader].
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// unknown says that a write may have happened, and why nobody knows.
func unknown(cause error) error { return fmt.Errorf("%w: %w", ErrUnknown, cause) }
