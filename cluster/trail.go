package cluster

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/base"
)

// A trail decides which entries stay in the log behind a snapshot, for members that are behind. Raft asks to delete
// all of them (raftTrailingLogs), and the trail keeps
//
//   - the last raft.Config.TrailingLogs entries, as far as they have a quarter of Options.LogSize together;
//   - all entries behind a snapshot that is being sent, and then those that its receiver has not got yet, as far as they
//     have Options.LogSizeBehind together. Otherwise a member that receives a large state from a
//     busy group would find the log cut off when it has it, and would need the next snapshot.
type trail struct {
	log     *LogStore
	entries uint64
	opts    *Options
	logger  hclog.Logger
	reclaim chan struct{} // gets a token when entries were deleted and the log's store is large

	cutting sync.Mutex // held while the log is cut

	mu    sync.Mutex // protects holds
	holds map[raft.ServerID]*logHold
}

// A logHold keeps the entries above index for a member.
type logHold struct {
	index uint64
	seen  time.Time // of the last progress
}

const (
	// Raft asks for a cut after each snapshot. What really goes is decided in DeleteRange.
	raftTrailingLogs = 1 // the least that raft takes

	// holdPatience is for how long the log stays for a member that makes no progress. It is longer than a member has
	// to install a snapshot.
	holdPatience = (installTimeouts + 6) * transportTimeout

	logLook = time.Second // how often the size of the log is looked at
)

// newTrail returns the trail of a log. It takes the number of entries to keep from the
// configuration, which Open then sets to raftTrailingLogs for raft itself.
func newTrail(log *LogStore, o *Options, c *raft.Config) *trail {
	return &trail{log: log, entries: c.TrailingLogs, opts: o, logger: c.Logger, reclaim: make(chan struct{}, 1), holds: map[raft.ServerID]*logHold{}}
}

// errOutrun ends a transfer whose receiver would find a gap between its snapshot and the log.
var errOutrun = errors.New("cluster: the log behind the snapshot has become longer than Options.LogSizeBehind and was cut off: " +
	"the member gets a newer snapshot")

// hold keeps the entries above index for a member that is about to get a snapshot.
//
// Holding cutting makes the check and the note one step: no cut can come between them.
func (t *trail) hold(id raft.ServerID, index uint64) error {
	t.cutting.Lock()
	defer t.cutting.Unlock()
	if first, err := t.log.FirstIndex(); err != nil || first > index+1 {
		return errors.Join(err, errOutrun)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds[id] = &logHold{index, time.Now()}
	return nil
}

// acked notes that a member has the entries up to index, or, for 0, that its snapshot has got further. The error says that the
// log is not kept for it.
func (t *trail) acked(id raft.ServerID, index uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holds[id]
	if h == nil {
		return errOutrun
	}
	h.index, h.seen = max(h.index, index), time.Now()
	if last, err := t.log.LastIndex(); err == nil && index > 0 && h.index >= last {
		delete(t.holds, id)
	}
	return nil
}

// answered notes what a member has answered to a message.
func (t *trail) answered(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	last := req.PrevLogEntry // 0 in a heartbeat
	if n := len(req.Entries); n > 0 {
		last = req.Entries[n-1].Index
	}
	if resp.Success && last > 0 {
		_ = t.acked(id, last) // nothing is kept for most members
	}
}

// first returns the lowest index that stays when the log is cut. Bytes are those of an average entry.
//
// Sizes are estimates: the bytes of the whole store, shared out evenly among the entries of the
// log. That is good enough for limits of hundreds of megabytes, and costs no read.
func (t *trail) first() (uint64, error) {
	last, err := t.log.LastIndex()
	if err != nil {
		return 0, err
	}
	_, each := t.log.stored()
	from := last + 1 - min(last+1, t.entries, uint64(float64(t.opts.LogSize/4)/max(each, 1)))
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, h := range t.holds {
		size := int64(each * float64(last-min(last, h.index)))
		switch {
		case time.Since(h.seen) > holdPatience:
			delete(t.holds, id)
		case size > t.opts.LogSizeBehind:
			t.logger.Warn("the log is not kept for a member that is behind any more; it needs another snapshot",
				"peer", id, "has", h.index, "last", last, "bytes", size, "limit", t.opts.LogSizeBehind)
			delete(t.holds, id)
		default:
			from = min(from, h.index+1)
		}
	}
	return from, nil
}

// A trailedLog is the log as raft sees it: guarded, cut off by a trail, and read by transport.load.
type trailedLog struct {
	raft.LogStore
	trail *trail
}

// IsMonotonic implements raft.MonotonicLogStore.
func (l trailedLog) IsMonotonic() bool { return true }

// DeleteRange implements raft.LogStore.
func (l trailedLog) DeleteRange(first, last uint64) error {
	end, err := l.LastIndex()
	if err != nil || last >= end { // all of the log, or the end of it
		return errors.Join(err, l.LogStore.DeleteRange(first, last))
	}
	t := l.trail
	t.cutting.Lock()
	defer t.cutting.Unlock()
	from, err := t.first()
	if err != nil {
		return err
	}
	if last = min(last, from-1); last < first || from == 0 {
		return nil
	}
	bytes, _ := t.log.stored()
	if err := l.LogStore.DeleteRange(first, last); err != nil || bytes < t.opts.LogSize/4 {
		return err
	}
	base.Wake(t.reclaim)
	return nil
}

// unread is the type of an entry that was not read, because transport.load does so. It is never stored.
const unread = raft.LogType(math.MaxUint8)

// GetLog implements raft.LogStore. Raft gathers entries for a message by their number alone, and of
// large ones these would be gigabytes for each member that is behind. So it gets empty ones, and the transport reads as many
// as fit into the message.
func (l trailedLog) GetLog(index uint64, log *raft.Log) error {
	if !gathering() {
		return l.LogStore.GetLog(index, log)
	}
	first, err1 := l.FirstIndex()
	last, err2 := l.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if index < first || index > last {
		return raft.ErrLogNotFound
	}
	*log = raft.Log{Index: index, Type: unread}
	return nil
}

// gathering reports whether the caller of its caller is the function of raft that gathers the entries of a message. Raft gives
// what that returns to the transport alone.
func gathering() bool {
	var pc [1]uintptr
	if runtime.Callers(3, pc[:]) == 0 {
		return false
	}
	if known, ok := callers.Load(pc[0]); ok {
		return known.(bool)
	}
	frame, _ := runtime.CallersFrames(pc[:]).Next()
	is := strings.HasPrefix(frame.Function, raftType) && filepath.Ext(frame.Function) == ".setNewLogs"
	callers.Store(pc[0], is)
	return is
}

// The stack of a caller is looked up by name once for each place of a call, and by its address
// after that.
var callers sync.Map // what gathering has found out: uintptr → bool

// lookAfterLog keeps the log small on the disk until the member stops: it asks for a snapshot when many bytes were applied
// since the last one, or when that is damaged, and takes the room of deleted entries back.
//
// Raft makes snapshots by the number of entries, which says little about bytes. This makes one by
// their size too, so that a few large writes do not fill the disk.
func (n *Node) lookAfterLog() {
	for {
		snapshot := false
		select {
		case <-time.After(logLook):
			snap, applied := uint64(0), n.state.applied()
			if s := n.snapshots.newest(); s != nil {
				snap = s.meta.Index
			}
			_, each := n.log.stored()
			snapshot = applied > snap && each*float64(applied-snap) > float64(n.opts.LogSize)
		case <-n.snapshots.wanted: // one that was to be sent is damaged
			snapshot = true
		case <-n.trail.reclaim:
			if err := n.log.reclaim(n.ctx); err != nil && n.usable() == nil {
				n.config.Logger.Warn("the room of deleted entries of the log could not be taken back", "error", err)
			}
		case <-n.stopping:
			return
		}
		if snapshot {
			_ = n.await(n.ctx, func() error { return n.raft().Snapshot().Error() }) // else the next look asks again
		}
	}
}

// load reads the entries of a message, as many as fit into maxMessage bytes, and at least one. Raft takes from the
// request itself how far it has sent, and goes on from there.
func (l trailedLog) load(req *raft.AppendEntriesRequest) error {
	size := 0
	for i, e := range req.Entries {
		if e.Type == unread {
			if err := l.LogStore.GetLog(e.Index, e); err != nil {
				return fmt.Errorf("cluster: read entry %d for a message: %w", e.Index, err)
			}
		}
		if size += len(e.Data) + len(e.Extensions); size > maxMessage && i > 0 {
			req.Entries = req.Entries[:i:i]
			return nil
		}
	}
	return nil
}
