package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/fields"
)

// The time of a group is a part of its state, so it is the same on all members at the same place of their order. Only
// commands move it, and never back: the leader states its time in those that write values that expire, and in all others
// as long as a value of the state may still expire. Whatever looks whether a value is over asks for this time, and no member's
// clock: commands when they are applied, readers, and the merges of each store.
//
//   - A value is there for all commands and reads before the one that moves the time to its end, and for none after it, on
//     every member. So nothing that was gone comes back with another leader.
//   - Reads move the time of a group that is not written: before the leader says up to where a read must have seen the log, it
//     writes its time if the state's is readLag behind. For readers of Local it does so once in compareEvery.
//   - A command says how much longer its values last. So the clock of the member that a program writes by does not matter.
//     Or it says when they end: a transaction that changes a value can keep its end, however often and slowly that is done.
//   - A leader whose clock is behind the state's time goes on from that, as fast as its own clock goes.
//
// A group without values that expire has no time.
type stateTime struct {
	now  atomic.Int64 // milliseconds since the beginning of 1970; written by the state machine's goroutine
	last atomic.Int64 // when the last of all values that were written expires; likewise
}

// timeKey is the key of the time in the state: now and last, two integers of 64 bits, little-endian. The batch that has the
// commands sets it, before anything is taken for over by it. Part of the format of the state.
var timeKey = append(reservedKey[:len(reservedKey):len(reservedKey)], 2)

const (
	// readLag is how long a value may be read after its end in a group that is not written. A read that moves the time costs
	// the group a write.
	readLag = 100 * time.Millisecond

	stateTimeSize = 16 // two integers of 8 bytes
	timedSize     = 17 // of what stands before the command in one of kindTimed, and before the ends in one of kindEnds
)

// expires reports whether a value may still expire.
func (t *stateTime) expires() bool { return t.last.Load() > t.now.Load() }

// read reads the time of the state in db.
func (t *stateTime) read(db *shale.DB) error {
	v, err := db.AppendValue(nil, timeKey)
	switch {
	case errors.Is(err, shale.ErrNotFound):
		return nil
	case err != nil:
		return err
	case len(v) != stateTimeSize:
		return base.Corruption("", -1, "time of the state", fmt.Errorf("%d bytes instead of %d", len(v), stateTimeSize))
	}
	t.now.Store(int64(binary.LittleEndian.Uint64(v)))
	t.last.Store(int64(binary.LittleEndian.Uint64(v[8:])))
	return nil
}

// appendStateTime appends what the state has under timeKey.
func appendStateTime(dst []byte, now, last int64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(now)), uint64(last))
}

// appendTimed appends what stands before the command in one of kindTimed.
func appendTimed(dst []byte, now, present int64) []byte {
	return appendStateTime(append(dst, kindTimed), now, present)
}

// cutTimed undoes appendTimed, behind the kind.
func cutTimed(data []byte) (now, present int64, rest []byte, err error) {
	if len(data) < timedSize-1 {
		return 0, 0, nil, fmt.Errorf("command with a time of %d bytes", len(data))
	}
	a, b := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
	if max(a, b) > base.MaxExpiry {
		return 0, 0, nil, fmt.Errorf("command with the times %d and %d", a, b)
	}
	return int64(a), int64(b), data[timedSize-1:], nil
}

// appendEnds appends which operations of a command of kindEnds have values that expire when they say. They are in ascending order.
func appendEnds(dst []byte, ends []int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ends)))
	next := 0
	for _, i := range ends {
		dst = binary.AppendUvarint(dst, uint64(i-next))
		next = i + 1
	}
	return dst
}

// cutEnds undoes appendEnds. The command behind it is not empty.
func cutEnds(data []byte) (ends []int, rest []byte, err error) {
	d := fields.Decoder{Src: data}
	next := uint64(0)
	for n := d.Uvarint(); n > 0 && d.Err == nil; n-- {
		gap := d.Uvarint()
		if gap > maxCommandSize { // no batch has so many operations
			d.Fail(fmt.Errorf("a gap of %d operations", gap))
		}
		next += gap
		ends = append(ends, int(next))
		next++
	}
	if d.Err == nil && len(d.Src) == 0 {
		d.Fail(errors.New("ends without a command"))
	}
	return ends, d.Src, d.Err
}

// A moment is when a member has found that its clock is behind the state's time.
type moment struct {
	now int64     // the state's
	at  time.Time // the clock's
}

// leaderTime returns the time that this member states if it leads.
func (s *state) leaderTime() int64 {
	t := s.clock()
	now := t.UnixMilli()
	if m := s.behind.Load(); m != nil {
		now = max(now, m.now+t.Sub(m.at).Milliseconds())
	}
	return base.ClampExpiry(now)
}

// noteTime notes a time of the state.
func (s *state) noteTime(now int64) {
	if now > s.leaderTime() {
		s.behind.Store(&moment{now, s.clock()})
	}
}

// stamp returns the command with this member's time, if it needs one.
func (s *state) stamp(cmd []byte) []byte {
	switch {
	case len(cmd) > 0 && (cmd[0] == kindTimed || cmd[0] == kindEnds):
		cmd = bytes.Clone(cmd) // raft may have the other one already
	case s.current.Load().time.expires():
		cmd = append(appendTimed(make([]byte, 0, timedSize+len(cmd)), 0, 0), cmd...)
	default:
		return cmd
	}
	binary.LittleEndian.PutUint64(cmd[1:], uint64(s.leaderTime()))
	return cmd
}

// moveTime has this leader write its time, if the state's is lag behind it and a value may be over since then.
func (n *Node) moveTime(ctx context.Context, lag time.Duration) error {
	if t := &n.state.current.Load().time; !t.expires() || n.state.leaderTime()-t.now.Load() < lag.Milliseconds() {
		return nil
	}
	_, err := n.proposeOnce(ctx, appendTimed(nil, 0, 0))
	return err
}
