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
// docs/LOGSTORE.md shows both next to each other. [NewLogStore] makes one.
//
// # Promises
//
//  1. What StoreLogs, Set and SetUint64 have acknowledged survives a power cut.
//  2. The log has no hole, at any time: its entries are those from FirstIndex to LastIndex. A crash
//     during StoreLogs leaves all of the new entries or none, or the first ones if they are larger
//     than 64 MiB together. A crash during DeleteRange leaves the log as it was or truncated.
//  3. FirstIndex and LastIndex are kept in memory, and read from the store once.
//  4. After an error the log is as it was before the call, also when the store takes writes again: entries
//     of a failed StoreLogs do not come back behind others. Only a crash may bring back those of the
//     last call. raft panics on some errors; a Node ends instead, and Node.Err says why.
//
// # How entries go
//
// DeleteRange of the oldest entries writes one key, which says what the first index is, and syncs it.
// Then it deletes the entries themselves, without a sync, a few thousand at a time, so that others write
// in between. Most are still in the memtable then, and never reach a table.
//
// # What is refused
//
// raft appends to the end of the log, and deletes from an end of it. A LogStore relies on that:
//
//   - Entries that follow the log, or others of the same StoreLogs, with a gap replace them: nothing before the gap
//     stays. raft leaves a gap only behind a snapshot.
//   - An entry below FirstIndex, entries of a StoreLogs in another order, and a DeleteRange that would
//     leave a hole, are errors. An entry that is in the log is replaced, and those behind it stay.
//
// A LogStore may be used by several goroutines at once. There must be only one for a store, and
// nobody else may write to that.
type LogStore struct {
	db     *shale.DB
	bounds atomic.Pointer[span] // of the log; nil until they are read. Written under mu

	mu sync.Mutex // one StoreLogs or DeleteRange at a time

	// Guarded by mu.
	low     uint64      // the store may still have deleted entries from here up to the log
	stray   []span      // entries of failed writes, which the store may have; they are behind the log
	unsure  bool        // a write has failed: the next one repeats the first index and deletes the stray
	batch   shale.Batch // of the call under way
	entries int         // in batch
	buf     []byte      // an entry's bytes
	limits  logLimits
}

// logLimits are constants outside of tests.
type logLimits struct {
	batchBytes  int // a batch is written when it has reached this size
	batchDelete int // the most entries below the log that one batch deletes
}

// A crash can cut a StoreLogs of more than batchBytes in two. batchDelete bounds how long a
// StoreLogs waits for deletions of old entries.
var defaultLogLimits = logLimits{batchBytes: 64 << 20, batchDelete: 8 << 10}

var _ interface {
	raft.LogStore
	raft.StableStore
	raft.MonotonicLogStore
} = (*LogStore)(nil)

// NewLogStore returns the log store that db holds, which is empty if db is. Open db with
// [LogStoreOptions]. The caller closes db, after raft has been shut down. With a Durability other than
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
	return s.read(index, log, MaxEntrySize)
}

// read is GetLog, but a command of more than most bytes is replaced by absent.
func (s *LogStore) read(index uint64, log *raft.Log, most int) error {
	bounds, err := s.log()
	if err != nil {
		return err
	}
	if !bounds.contains(index) {
		return raft.ErrLogNotFound
	}
	var key [entryKeySize]byte
	err = s.db.ViewValue(appendEntryKey(key[:0], index), func(value []byte) error {
		l, err := decodeEntry(value, index, most)
		if err != nil {
			return fmt.Errorf("cluster: entry %d of the log: %w", index, err)
		}
		*log = l
		return nil
	})
	// GetLog takes no lock, so that a member which is behind can be served while the log is
	// written.
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
	logs, put, err := appended(log, logs)
	if err != nil {
		return err
	}
	// If entries of the log are replaced, those behind them stay.
	next := span{log.from, max(log.to, put.to)}
	if log.empty() || put.from > log.to {
		next = put
	}
	for more := next.from < log.from; more && err == nil; { // what is left of an older log would be in the new one
		more, err = s.deleteSome(log.from)
	}
	s.begin()
	if err == nil {
		err = s.repair(next.from, next.from != log.from)
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
		stray := put
		if !log.empty() {
			stray.from = max(put.from, log.to) // an entry that was to be replaced is still in the log
		}
		s.failed(stray)
		return fmt.Errorf("cluster: store entries %d to %d of the log: %w", put.from, put.last(), err)
	}
	s.written(next)
	s.low = min(s.low, next.from)
	return nil
}

// appended returns which of the logs will be in the log when they are stored, those behind the last gap, and their indexes.
func appended(log span, logs []*raft.Log) (stay []*raft.Log, put span, err error) {
	stay, put = logs, span{logs[0].Index, logs[0].Index}
	for i, l := range logs {
		size := len(l.Data) + len(l.Extensions)
		switch {
		case l.Index == math.MaxUint64:
			return nil, put, fmt.Errorf("cluster: no entry of the log can have index %d", l.Index)
		case size > MaxEntrySize:
			return nil, put, fmt.Errorf("cluster: entry %d of the log has %d bytes, limit %d: %w", l.Index, size, MaxEntrySize, shale.ErrValueTooLarge)
		case l.Index < put.to:
			return nil, put, fmt.Errorf("cluster: entry %d comes behind entry %d in what is to be stored", l.Index, put.last())
		case l.Index > put.to:
			stay, put.from = logs[i:], l.Index
		}
		put.to = l.Index + 1
	}
	if !log.empty() && put.from < log.from {
		return nil, put, fmt.Errorf("cluster: entry %d is below the log, which has %v: delete that first", put.from, log)
	}
	return stay, put, nil
}

// DeleteRange deletes the entries from first to last, both included. They must reach to an end of the
// log, or not be in it. When it returns, they will not come back.
func (s *LogStore) DeleteRange(first, last uint64) error {
	if err := s.cut(first, last); err != nil {
		return err
	}
	_ = s.deleteDead() // the log is truncated all the same, and a later call goes on
	return nil
}

// cut takes the entries from first to last out of the log.
//
// The span of the log changes in memory only after the write has succeeded. So readers never miss
// an entry that a failed call was about to delete.
func (s *LogStore) cut(first, last uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.readBounds()
	if err != nil {
		return err
	}
	next := log
	switch {
	case first > last || log.empty() || last < log.from || first >= log.to:
		return nil // nothing of it is in the log
	case first <= log.from:
		next.from = min(last, log.last()) + 1
	case last >= log.last():
		next.to = first
	default:
		return fmt.Errorf("cluster: to delete entries %d to %d would leave a hole in the log, which has %v", first, last, log)
	}
	// Of the oldest entries only the first index is written. The newest ones go at once, because nothing else says that they
	// are not in the log.
	s.begin()
	err = s.repair(next.from, next.from != log.from)
	if err == nil {
		err = s.deleteEntries(span{next.to, log.to})
	}
	if err == nil {
		err = s.write()
	}
	if err != nil {
		s.failed(span{})
		return fmt.Errorf("cluster: delete entries %d to %d of the log: %w", first, last, err)
	}
	s.written(next)
	return nil
}

// deleteSome deletes some of the entries that the store still has below from, which is the first index. It reports whether
// there may be more.
func (s *LogStore) deleteSome(from uint64) (more bool, err error) {
	dead := shale.Range{Lower: appendEntryKey(nil, s.low), Upper: appendEntryKey(nil, from), KeysOnly: true, Limit: s.limits.batchDelete}
	s.begin()
	// They are not in the log any more, so it does not matter when they go.
	s.batch.SetDurability(shale.SyncManual)
	next := from
	for i, err := range indexes(s.db, dead) {
		if err == nil {
			err = s.deleteEntries(span{i, i + 1})
		}
		if err != nil {
			return false, err
		}
		next = i + 1
	}
	if more = s.batch.Len() == s.limits.batchDelete; !more {
		next = from
	}
	if err := s.write(); err != nil {
		return false, err
	}
	s.low = max(s.low, next)
	return more, nil
}

// deleteDead deletes the entries that the store still has below the log. Others may write in between.
func (s *LogStore) deleteDead() error {
	for more := true; more; {
		s.mu.Lock()
		log, err := s.readBounds()
		if err == nil {
			more, err = s.deleteSome(log.from)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// reclaim takes back the room of all entries that are not in the log any more.
//
// A compaction of the dead range lets the store delete whole tables, and rewrite those at the
// border. Without it deleted entries would stay until the levels fill up, which may never happen in
// a store that is emptied at one end as fast as it grows at the other.
func (s *LogStore) reclaim(ctx context.Context) error {
	log, err := s.log()
	if err == nil {
		err = s.deleteDead()
	}
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

// repair adds to the batch what is to be put right after a failed write, and the first index of the log if that has
// changed.
//
// After an error nobody knows which part of a batch is in the store. The stray entries are deleted
// by the same batch that has the next new ones, so there is no moment at which both are in the log.
func (s *LogStore) repair(first uint64, changed bool) error {
	if changed || s.unsure {
		var value [8]byte
		if err := s.batch.Put([]byte(firstKey), appendFirst(value[:0], first)); err != nil {
			return err
		}
	}
	for _, stray := range s.stray {
		if err := s.deleteEntries(stray); err != nil {
			return err
		}
	}
	return nil
}

// failed notes that a write has failed which had entries behind the log.
func (s *LogStore) failed(stray span) {
	s.stray, s.unsure = addSpan(s.stray, stray), true
}

// written notes what the log is after a write.
func (s *LogStore) written(log span) {
	s.stray, s.unsure = nil, false
	s.bounds.Store(&log)
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
