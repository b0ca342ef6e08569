package remote

import (
	"github.com/shaledb/shale"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// Logs wait on the local disk until the bucket has them. If it does not answer for long, they would fill the disk and
// stop the store that they back up. So there is a bound, Options.MaxKept. Beyond it, all logs are let go whose writes are
// in tables. The bucket then lacks a part of the log, whose writes come with the tables of the next step: restores can
// go to any point before the gap, and to any point from that step up.

// tooMuch returns how many bytes of logs wait for the bucket although their writes are in tables, and whether that is more
// than MaxKept, or more than the disk has left.
// A file system of the program's own need not be on a disk, so its room is not asked for.
func (s *Store) tooMuch() (kept int64, yes bool) {
	kept = shale.ShippingOf(s.db).HeldLogBytes()
	if s.opts.MaxKept < 0 || kept > s.opts.MaxKept {
		return kept, s.opts.MaxKept >= 0
	}
	// Logs that take more than the disk has left would fill it before they have doubled.
	free, ok := vfs.FreeRoom(s.dir)
	return kept, s.fs == vfs.Default && ok && kept > free
}

// keepLogs keeps the logs from a number up. Requires: ship.mu, or the Store has not started.
func (s *Store) keepLogs(from uint64) {
	s.ship.held = from
	shale.ShippingOf(s.db).HoldLogs(from)
}

// letGo lets go of the logs that wait for the bucket, if they take too much room.
func (s *Store) letGo() error {
	if err := s.ship.mu.take(s.loops); err != nil {
		return nil // Close has begun
	}
	defer s.ship.mu.release()
	return s.letGoLocked(func(*manifest.State) error {
		// A segment that is not known to be in the bucket may be there.
		at, seq := s.ship.at, s.ship.lastSeq
		if p := s.ship.pending; p != nil {
			at, seq = object.Position{Log: p.Log, Offset: p.End()}, max(seq, p.LastSeq)
		}
		return s.note(func(n *localdir.Record) { n.Shipped, n.LastSeq = at, max(n.LastSeq, seq) })
	})
}

// letGoUnopened is letGo for an attached store whose Store could not be opened: the next Attach goes on without these logs.
func (s *Store) letGoUnopened() error {
	if !s.attached {
		return nil // the local store is closed, and keeps them
	}
	return s.letGoLocked(func(state *manifest.State) error {
		n, err := localdir.ReadRecord(s.fs, s.dir)
		live := object.Position{Log: uint64(state.MinLog)}
		// A directory that does not go on in its bucket has no use for its notes; nor does one that takes a store over
		// look for its logs.
		if err != nil || n == nil || n.Fenced || n.Restored || !n.Shipped.Before(live) {
			return err
		}
		n.Shipped, n.LastSeq = live, max(n.LastSeq, uint64(state.LastSeq)) // the bucket may have a part of what is let go
		return localdir.WriteRecord(s.fs, s.dir, n)
	})
}

// letGoLocked lets go of the logs whose writes are in tables, if they take too much room. Before that, note notes it: a later
// Open must not look for what is let go. Requires: ship.mu, or the Store has not started.
func (s *Store) letGoLocked(note func(*manifest.State) error) error {
	kept, yes := s.tooMuch()
	if !yes {
		return nil
	}
	state, err := s.state()
	if err != nil {
		return err
	}
	live := uint64(state.MinLog) // what is in the logs before that is in tables
	if s.ship.held >= live {
		return nil
	}
	if err := note(state); err != nil {
		return err
	}
	s.keepLogs(live)
	if s.ship.at.Before(object.Position{Log: live}) { // else the bucket has them, and only Salvage would need them
		s.ledger.letGo(kept)
		s.emit(Event{Kind: EventLetGo, Bytes: kept})
	}
	return nil
}
