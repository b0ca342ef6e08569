package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// LogStoreOptions returns the options that fit a store which holds nothing but a raft log. There are
// no filters, because the log knows which entries it has, and no compression, because most entries
// are deleted while they are still in the memtable. Each write is durable before it is acknowledged,
// as raft demands. The caller may change the rest, such as FS, Logger and MemtableSize.
func LogStoreOptions() *shale.Options {
	return &shale.Options{
		Durability:        shale.SyncEach,
		FilterBits:        -1,
		Compression:       shale.NoCompression,
		CacheSize:         8 << 20, // entries that are sent to members which are behind
		CompactionWorkers: 1,
	}
}

// A LogStore keeps raft's log and raft's own values (term and vote) in a shale store. It is a
// raft.LogStore and a raft.StableStore, and can stand alone where raft-boltdb was used;
// docs/LOGSTORE.md shows both next to each other. NewLogStore makes one.
//
// # Promises
//
//  1. What StoreLogs, Set and SetUint64 have acknowledged survives a power cut.
//  2. The log has no hole, at any time: its entries are those from FirstIndex to LastIndex. A crash
//     during StoreLogs leaves all of the new entries or none, or the first ones if they are larger
//     than 64 MiB together. A crash during DeleteRange leaves the log as it was or truncated; if more
//     than a million entries at the end were to go, it may be in between.
//  3. FirstIndex and LastIndex are kept in memory, and read from the store once.
//  4. After an error the log is as it was before the call, also when the store takes writes again: entries
//     of a failed StoreLogs do not come back behind others. Only a crash may bring back those of the
//     last call. raft panics on some errors; a Node ends instead, and Node.Err says why.
//
// # How entries go
//
// DeleteRange of the oldest entries writes one key, which says what the first index is, and returns
// when it is on disk. The entries themselves are deleted by the following calls of StoreLogs, two for
// each new one, in the same write. So a snapshot of raft's does not hold up those who write. The
// store has at most 16,384 such entries when DeleteRange returns: it deletes what is more itself. Most
// entries are still in the memtable then, and never reach a table.
//
// # What is refused
//
// raft appends to the end of the log, and deletes from an end of it. A LogStore relies on that:
//
//   - Entries that follow the log with a gap replace it: nothing before the gap stays. raft leaves
//     a gap only behind a snapshot.
//   - An entry below FirstIndex, and a DeleteRange that would leave a hole, are errors. An entry that
//     is in the log is replaced, and those behind it stay.
//
// A LogStore may be used by several goroutines at once. There must be only one for a store, and
// nobody else may write to that.
type LogStore struct {
	db     *shale.DB
	bounds atomic.Pointer[span] // of the log; nil until they are read. Written under mu

	mu sync.Mutex // one StoreLogs or DeleteRange at a time

	// Guarded by mu.
	dead    []span      // deleted entries below the log that the store still has, ascending
	stray   []span      // entries of failed writes, which the store may have
	unsure  bool        // a write has failed: the next one repeats the first index and deletes the stray
	batch   shale.Batch // of the call under way
	entries int         // in batch
	buf     []byte      // an entry's bytes
	limits  logLimits
}

// logLimits are constants outside of tests.
type logLimits struct {
	batchBytes  int    // a batch is written when it has reached this size
	batchDelete uint64 // the most entries that one batch deletes
	dead        uint64 // the most dead entries that DeleteRange leaves
	purge       uint64 // the dead entries that are deleted with each new one
}

var defaultLogLimits = logLimits{batchBytes: 64 << 20, batchDelete: 1 << 20, dead: 16 << 10, purge: 2}

var _ interface {
	raft.LogStore
	raft.StableStore
	raft.MonotonicLogStore
} = (*LogStore)(nil)

// NewLogStore returns the log store that db holds, which is empty if db is. Open db with
// LogStoreOptions. The caller closes db, after raft has been shut down. With a Durability other than
// shale.SyncEach, raft breaks its promises at a power cut.
func NewLogStore(db *shale.DB) *LogStore { return &LogStore{db: db, limits: defaultLogLimits} }

// IsMonotonic implements raft.MonotonicLogStore: raft then empties the log when it has installed a
// snapshot. Otherwise old entries would stay in front of a gap, also those that were never committed.
func (s *LogStore) IsMonotonic() bool { return true }

// FirstIndex returns the index of the oldest entry, or 0 if the log is empty.
func (s *LogStore) FirstIndex() (uint64, error) {
	log, err := s.log()
	if err != nil || log.empty() {
		return 0, err
	}
	return log.from, nil
}

// LastIndex returns the index of the newest entry, or 0 if the log is empty.
func (s *LogStore) LastIndex() (uint64, error) {
	log, err := s.log()
	if err != nil || log.empty() {
		return 0, err
	}
	return log.last(), nil
}

// GetLog sets log to the entry at index, or returns raft.ErrLogNotFound. AppendedAt is in UTC.
func (s *LogStore) GetLog(index uint64, log *raft.Log) error {
	bounds, err := s.log()
	if err != nil {
		return err
	}
	if !bounds.contains(index) {
		return raft.ErrLogNotFound
	}
	var key [entryKeySize]byte
	err = s.db.ViewValue(appendEntryKey(key[:0], index), func(value []byte) error {
		l, err := decodeEntry(value, index)
		if err != nil {
			return fmt.Errorf("cluster: entry %d of the log: %w", index, err)
		}
		*log = l
		return nil
	})
	if errors.Is(err, shale.ErrNotFound) {
		if !s.bounds.Load().contains(index) { // DeleteRange was faster
			return raft.ErrLogNotFound
		}
		return fmt.Errorf("cluster: entry %d of the log is missing from its store, though the log has %v", index, bounds)
	}
	return err
}

// StoreLog appends one entry; see StoreLogs.
func (s *LogStore) StoreLog(log *raft.Log) error { return s.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries, which are on disk when it returns. Either all are in the log then, or
// none and an error.
func (s *LogStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.readBounds()
	if err != nil {
		return err
	}
	a := appending{log: log}
	for _, l := range logs {
		if err := a.add(l); err != nil {
			return err
		}
	}
	s.begin()
	purge := s.limits.purge * uint64(len(logs))
	if a.restarts {
		purge = math.MaxUint64 // what is left of an older log would be in the new one
	}
	dead, err := s.deleteDead(purge)
	if err == nil && (a.restarts || len(a.replaced) > 0 || s.unsure) {
		err = s.putFirst(a.log.from)
	}
	for _, l := range logs {
		if err != nil {
			break
		}
		err = s.putEntry(l)
	}
	if err == nil {
		err = s.write()
	}
	if err != nil {
		// Some of it may be in the store, which the next write puts right.
		s.unsure = true
		for _, put := range a.put {
			if !log.empty() {
				put.from = max(put.from, log.to) // an entry that was to be replaced is still in the log
			}
			s.stray = addSpan(s.stray, put)
		}
		return fmt.Errorf("cluster: store entries %d to %d of the log: %w", logs[0].Index, logs[len(logs)-1].Index, err)
	}
	for _, replaced := range a.replaced {
		dead = addSpan(dead, replaced)
	}
	s.dead, s.stray, s.unsure = dead, nil, false
	s.bounds.Store(&a.log)
	return nil
}

// An appending is what StoreLogs is about to do to the bounds of the log.
type appending struct {
	log      span
	put      []span // the entries
	replaced []span // what was the log in front of a gap
	restarts bool   // an empty log goes on below where it was
}

// add takes one more entry.
func (a *appending) add(l *raft.Log) error {
	i, size := l.Index, len(l.Data)+len(l.Extensions)
	switch {
	case i == math.MaxUint64:
		return fmt.Errorf("cluster: no entry of the log can have index %d", i)
	case size > MaxEntrySize:
		return fmt.Errorf("cluster: entry %d of the log has %d bytes, limit %d: %w", i, size, MaxEntrySize, shale.ErrValueTooLarge)
	case a.log.empty():
		a.restarts = a.restarts || i < a.log.from
		a.log = span{i, i + 1}
	case i < a.log.from:
		return fmt.Errorf("cluster: entry %d is below the log, which has %v: delete that first", i, a.log)
	case i < a.log.to:
	case i == a.log.to:
		a.log.to++
	default:
		a.replaced = append(a.replaced, a.log)
		a.log = span{i, i + 1}
	}
	a.put = addSpan(a.put, span{i, i + 1})
	return nil
}

// DeleteRange deletes the entries from first to last, both included. They must reach to an end of the
// log, or not be in it. When it returns, they will not come back.
func (s *LogStore) DeleteRange(first, last uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.readBounds()
	if err != nil {
		return err
	}
	switch {
	case first > last || log.empty() || last < log.from || first >= log.to:
		return nil // nothing of it is in the log
	case first <= log.from:
		err = s.deleteFront(log, min(last, log.last())+1)
	case last >= log.last():
		err = s.deleteBack(log, first)
	default:
		return fmt.Errorf("cluster: to delete entries %d to %d would leave a hole in the log, which has %v", first, last, log)
	}
	if err != nil {
		return fmt.Errorf("cluster: delete entries %d to %d of the log: %w", first, last, err)
	}
	return nil
}

// deleteFront makes from the first index of the log. It is one small write. Afterwards, it deletes
// dead entries until there are not too many.
func (s *LogStore) deleteFront(log span, from uint64) error {
	s.begin()
	_, err := s.deleteDead(0)
	if err == nil {
		err = s.putFirst(from)
	}
	if err == nil {
		err = s.write()
	}
	if err != nil {
		s.unsure = true
		return err
	}
	s.stray, s.unsure = nil, false
	s.dead = addSpan(s.dead, span{log.from, from})
	s.bounds.Store(&span{from, log.to})
	s.purge(s.limits.dead)
	return nil
}

// purge deletes dead entries until at most most of them are left. If the store has failed, it does
// nothing, and the next call says so.
func (s *LogStore) purge(most uint64) {
	for s.countDead() > most {
		s.begin()
		// They are not in the log any more, so it does not matter when they go.
		s.batch.SetDurability(shale.SyncManual)
		dead, err := s.deleteDead(min(s.countDead()-most, s.limits.batchDelete))
		if err == nil {
			err = s.write()
		}
		if err != nil {
			return // the log is truncated all the same
		}
		s.dead = dead
	}
}

// reclaim takes back the room of all entries that are not in the log any more.
func (s *LogStore) reclaim(ctx context.Context) error {
	s.mu.Lock()
	log, err := s.readBounds()
	for err == nil && s.countDead() > 0 && ctx.Err() == nil {
		n := s.countDead()
		if s.purge(n - min(n, s.limits.dead)); s.countDead() == n {
			break // the store has failed
		}
		s.mu.Unlock() // for whoever appends
		s.mu.Lock()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.db.Compact(ctx, shale.Range{Lower: appendEntryKey(nil, 0), Upper: appendEntryKey(nil, log.from)})
}

// stored returns how many bytes the store has in its tables and memtables, and how many of them each entry of the log takes.
func (s *LogStore) stored() (bytes int64, each float64) {
	m := s.db.Metrics()
	bytes = m.MemtableBytes
	for _, l := range m.Levels {
		bytes += l.Bytes
	}
	if log, err := s.log(); err == nil && !log.empty() {
		each = float64(bytes) / float64(log.len())
	}
	return bytes, each
}

// deleteBack cuts the log off at to. It deletes the newest entries first. So if not all of them go,
// there is still no hole.
func (s *LogStore) deleteBack(log span, to uint64) error {
	for log.to > to {
		cut := span{max(to, log.to-min(log.len(), s.limits.batchDelete)), log.to}
		s.begin()
		_, err := s.deleteDead(0)
		if err == nil && s.unsure {
			err = s.putFirst(log.from)
		}
		if err == nil {
			err = s.deleteEntries(cut)
		}
		if err == nil {
			err = s.write()
		}
		if err != nil {
			s.unsure = true
			return err
		}
		s.stray, s.unsure = nil, false
		log.to = cut.from
		s.bounds.Store(&span{log.from, log.to})
	}
	return nil
}

// begin begins a batch.
func (s *LogStore) begin() {
	if s.batch.Size() > maxKeptBatch {
		s.batch = shale.Batch{}
	}
	s.batch.Reset()
	s.entries = 0
}

// maxKeptBatch keeps a large write from holding its memory for good.
const maxKeptBatch = 4 << 20

// write writes the batch, and empties it.
func (s *LogStore) write() error {
	if s.batch.Len() == 0 {
		return nil
	}
	err := s.db.Write(context.Background(), &s.batch)
	s.batch.Reset()
	s.entries = 0
	return err
}

// putEntry adds an entry to the batch. It writes the batch first if that would become too large. What
// the batch says about older entries goes with the first new one.
func (s *LogStore) putEntry(l *raft.Log) error {
	if cap(s.buf) > maxKeptBatch {
		s.buf = nil
	}
	s.buf = appendEntry(s.buf[:0], l)
	if s.entries > 0 && s.batch.Size()+len(s.buf) > s.limits.batchBytes {
		if err := s.write(); err != nil {
			return err
		}
	}
	s.entries++
	var key [entryKeySize]byte
	return s.batch.Put(appendEntryKey(key[:0], l.Index), s.buf)
}

// putFirst adds the first index to the batch.
func (s *LogStore) putFirst(first uint64) error {
	var value [8]byte
	return s.batch.Put([]byte(firstKey), appendFirst(value[:0], first))
}

// deleteDead adds to the batch the deletion of stray entries, and of n dead ones at most. It returns
// the dead entries that are left when the batch has been written.
func (s *LogStore) deleteDead(n uint64) (left []span, err error) {
	for _, stray := range s.stray {
		if err := s.deleteEntries(stray); err != nil {
			return nil, err
		}
	}
	left = s.dead
	for n > 0 && len(left) > 0 {
		first := left[0]
		first.to = first.from + min(n, first.len())
		if err := s.deleteEntries(first); err != nil {
			return nil, err
		}
		n -= first.len()
		if first.to == left[0].to {
			left = left[1:]
		} else {
			left = append([]span{{first.to, left[0].to}}, left[1:]...)
		}
	}
	return left, nil
}

// deleteEntries adds the deletion of entries to the batch.
func (s *LogStore) deleteEntries(entries span) error {
	var key [entryKeySize]byte
	for i := entries.from; i < entries.to; i++ {
		if err := s.batch.Delete(appendEntryKey(key[:0], i)); err != nil {
			return err
		}
	}
	return nil
}

// countDead returns the number of dead entries.
func (s *LogStore) countDead() (n uint64) {
	for _, d := range s.dead {
		n += d.len()
	}
	return n
}
