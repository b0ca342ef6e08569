package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

var _ raft.BatchingFSM = (*state)(nil)

// maxApplyBytes bounds a batch: a larger one is written although more entries are at hand. A
// batch is copied into the log's buffer and the memtable as a whole.
const maxApplyBytes = 4 << 20

// Apply implements raft.FSM.
func (s *state) Apply(entry *raft.Log) any { return s.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch implements raft.BatchingFSM. It writes all commands as one batch, with the position of
// the last one. Commands that the state has already are passed over: after a restart raft begins
// behind its newest snapshot. Each response is a result.
//
// A command that can't be applied, because the disk fails or because a newer program has made it,
// ends the goroutine: the state must not pass over it, and raft has no way to be told. Raft
// acknowledges nothing then; it can still be shut down.
func (s *state) ApplyBatch(entries []*raft.Log) []any {
	// Raft calls this on one goroutine, and nothing else writes to the store. So the position is
	// read without a lock, and the batch of the state can be used again.
	responses := make([]any, len(entries))
	a := applier{state: s, store: s.current.Load()}
	a.now, a.last = a.store.time.now.Load(), a.store.time.last.Load()
	for i, entry := range entries {
		r := result{}
		if entry.Type == raft.LogCommand && entry.Index > a.store.at.index {
			var err error
			if r, err = a.add(entry); err != nil {
				s.die(entry, err)
			}
		}
		responses[i] = r
	}
	// Entries of other types, such as configurations, count too.
	last := entries[len(entries)-1]
	if err := a.write(); err != nil {
		s.die(last, err)
	}
	s.advance(a.store, last.Index)
	return responses
}

// die ends the state machine.
func (s *state) die(entry *raft.Log, err error) {
	err = fmt.Errorf("cluster: apply entry %d of term %d: %w", entry.Index, entry.Term, err)
	s.noteDamage(err)
	s.end(fmt.Errorf("%w: %w", ErrFailed, err))
	s.fail(err)
	runtime.Goexit()
}

// An applier gathers the commands of one call in the state's batch.
type applier struct {
	state *state
	store *stateStore
	at    position // of the last command in the batch

	now, last int64 // see stateTime

	// present has the keys that the batch puts (true) or deletes (false), from the first command on
	// that asks for one.
	present map[string]bool
	ranged  bool // the batch deletes a range, of which present knows nothing
}

// add puts a command into the batch, and returns the answer to it.
//
// The digest is brought up to date before the batch is written. That is safe because the digest and
// the batch go into the store together, or the member ends.
func (a *applier) add(entry *raft.Log) (r result, err error) {
	if err := a.state.log.whole(entry); err != nil {
		return result{}, err
	}
	c, err := decodeCommand(entry.Data)
	if err != nil {
		return result{}, err
	}
	later := c.time > a.now && a.last > a.now
	a.now = max(a.now, c.time)
	if later || c.kind == kindUpdate || a.ranged && c.kind != kindWrite {
		// The store is asked for what the transaction has observed, or for what is there after a range was
		// deleted, so it must have all commands before. It must also have the time before it takes a value for over.
		if err := a.write(); err != nil {
			return result{}, err
		}
	}
	batch := &a.state.batch
	if a.at.index == 0 {
		batch.Reset()
	}
	a.at = position{entry.Index, entry.Term}
	if r, err = a.addOps(&c); err != nil {
		return result{}, err
	}
	a.store.digests.add(entry, r)
	if batch.Size() > maxApplyBytes {
		err = a.write()
	}
	return r, err
}

// addOps puts the operations of a command into the batch.
//
// Answers are decided here, where all members apply the same commands in the same order, and not
// where the write came in. So PutIfAbsent inserts a key for exactly one of the clients that try at
// the same time.
func (a *applier) addOps(c *command) (r result, err error) {
	switch c.kind {
	case kindUpdate:
		if r.Lost, err = c.observed.lost(a.store.db, a.last > 0); err != nil || r.Lost > 0 {
			return r, err
		}
		r.Done = true
	case kindPutIfAbsent, kindDelete:
		if err := a.look(c.batch); err != nil {
			return result{}, err
		}
	}
	ends, i := c.ends, -1
	for op := range c.batch.Ops() {
		i++
		// The map knows all keys of a command that asks: look has asked the store for those that the
		// batch does not have, and operations of this command below update it.
		there := a.present[string(op.Key)]
		switch c.kind {
		case kindPutIfAbsent:
			if there {
				return result{}, nil
			}
			r.Done = true
		case kindDelete:
			r.Present = append(r.Present, there)
		}
		if op.Kind == shale.OpDeleteRange { // its bounds come from another member's program
			op.Value = belowReserved(op.Value)
		}
		if !op.ExpiresAt.IsZero() {
			until := op.ExpiresAt.UnixMilli()
			if len(ends) > 0 && ends[0] == i {
				ends = ends[1:]
			} else {
				until = base.ClampExpiry(until - c.present + a.now)
			}
			op.ExpiresAt, a.last = time.UnixMilli(until), max(a.last, until)
		}
		if err = op.Apply(&a.state.batch); err != nil {
			return result{}, err
		}
		switch {
		case op.Kind == shale.OpDeleteRange:
			a.ranged = true
		case a.present != nil:
			a.present[string(op.Key)] = a.puts(op)
		}
	}
	return r, nil
}

// puts reports whether a key is there after an operation of the batch.
func (a *applier) puts(op shale.Op) bool {
	return op.Kind == shale.OpPut && (op.ExpiresAt.IsZero() || op.ExpiresAt.UnixMilli() > a.now)
}

// look finds out which keys of a command are there after all commands before. It asks for all of them at once, so that the
// group does not wait for one read after the other.
func (a *applier) look(command *shale.Batch) error {
	if a.present == nil {
		a.present = map[string]bool{}
		for op := range a.state.batch.Ops() {
			a.present[string(op.Key)] = a.puts(op)
		}
	}
	var keys [][]byte
	for op := range command.Ops() {
		if _, known := a.present[string(op.Key)]; !known {
			keys = append(keys, op.Key)
		}
	}
	return a.store.db.GetMany(keys, func(i int, _ []byte, found bool) error {
		a.present[string(keys[i])] = found
		return nil
	})
}

// write writes the batch and the time, if there is something new.
func (a *applier) write() error {
	batch, t := &a.state.batch, &a.store.time
	if a.at.index == 0 {
		if a.now == t.now.Load() {
			return nil
		}
		batch.Reset()
		a.at = a.store.at
	}
	var value [positionSize]byte
	// Position, digest and operations are one batch of the store. A power cut that loses the end of
	// the store's log therefore loses whole commands, and the position says which ones raft has to
	// send again.
	if err := batch.Put(reservedKey, a.at.appendTo(value[:0])); err != nil {
		return err
	}
	if err := batch.Put(digestKey, a.store.digests.now.appendTo(nil)); err != nil {
		return err
	}
	if a.now > 0 {
		if err := batch.Put(timeKey, appendStateTime(value[:0], a.now, a.last)); err != nil {
			return err
		}
	}
	if err := a.store.db.Write(context.Background(), batch); err != nil {
		return err
	}
	a.store.at = a.at
	t.last.Store(a.last)
	t.now.Store(a.now) // not before the store has it: see shale.ShippingOptions
	a.state.noteTime(a.now)
	a.at, a.present, a.ranged = position{}, nil, false
	return nil
}

// Snapshot implements raft.FSM. It makes the checkpoint at once, on the state machine's goroutine:
// a link for each table, while the writes to come wait.
func (s *state) Snapshot() (raft.FSMSnapshot, error) {
	st := s.current.Load()
	dir, err := s.snaps.tempDir()
	if err == nil {
		err = st.db.Checkpoint(filepath.Join(dir, storeName))
	}
	if err != nil {
		s.noteDamage(err)
		return nil, errors.Join(fmt.Errorf("cluster: snapshot: %w", err), removeTree(s.fs, dir))
	}
	return &stateSnapshot{state: s, store: st, dir: dir, at: st.at}, nil
}

// A stateSnapshot is a checkpoint that is no snapshot yet.
type stateSnapshot struct {
	state *state
	store *stateStore
	dir   string // from snapshots.tempDir; "" once the sink has it
	at    position
}

// Persist implements raft.FSMSnapshot: the sink adopts the checkpoint, and nothing is copied.
func (c *stateSnapshot) Persist(sink raft.SnapshotSink) error {
	// The sink is raft's only handle for a snapshot, and made for a stream of bytes. Here it gets a
	// directory instead, by a method that raft does not know.
	own := sink.(*snapshotSink) // raft has it from snapshots
	own.adopt(c.dir, c.at)
	c.dir = ""
	if err := own.Close(); err != nil {
		c.state.noteDamage(err)
		return err
	}
	// Raft is about to cut the log off here. Entries behind the last command are none that the state
	// lacks, but soon nobody can look them up any more.
	c.state.advance(c.store, own.meta.Index)
	return nil
}

// Release implements raft.FSMSnapshot.
func (c *stateSnapshot) Release() {
	if c.dir != "" {
		_ = removeTree(c.state.fs, c.dir) // what is left is swept by the next start
	}
}

// Restore implements raft.FSM: it replaces the state by a snapshot that this member has received.
// Until the new state is there, readers see the old one, and if it can't be made, that stays. A
// state that has all of the snapshot stays as well, so that readers do not see it go back.
func (s *state) Restore(stream io.ReadCloser) error {
	if w, ok := stream.(raft.ReadCloserWrapper); ok { // raft counts what is read
		stream = w.WrappedReadCloser()
	}
	snap := stream.(*snapshotReader).snap // raft has it from snapshots
	if st := s.current.Load(); st.at.has(snap) {
		s.advance(st, snap.meta.Index) // what lies between the two was no command
		return nil
	}
	made, err := s.build(snap)
	if err != nil {
		return fmt.Errorf("cluster: restore: %w", err)
	}
	s.replace(made, snap.meta.Index)
	return nil
}
