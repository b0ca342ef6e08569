package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
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
	// Raft asks for a cut after each snapshot. What really goes is decided in raftLog.DeleteRange.
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

// first returns the lowest index that stays when a log that ends with last is cut.
//
// Sizes are estimates: the bytes of the whole store, shared out evenly among the entries of the
// log. That is good enough for limits of hundreds of megabytes, and costs no read.
func (t *trail) first(last uint64) uint64 {
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
	return from
}

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
