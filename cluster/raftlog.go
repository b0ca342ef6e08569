package cluster

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/base"
)

// A raftLog is the log as raft gets it. Three things are different from the LogStore in it:
//
//   - An error that raft does not expect ends the member (check).
//   - The trail decides how much of it is deleted behind a snapshot.
//   - Raft gets large commands without their data, since it gathers up to 256 of them for each message, and for each batch
//     that is applied. Whoever needs the data reads it (whole).
type raftLog struct {
	*LogStore
	trail *trail
	fail  func(error) // called with each unexpected error; it must not wait for raft's goroutines, since it runs on one
}

// check ends the goroutine that has met an error, unless raft expects it: that an entry or a key is not there.
//
// Raft panics when its term can't be saved or a committed entry can't be read, on goroutines of its own, where nobody
// can recover: a failing disk would end the whole program. After other errors it goes on with a picture of the log that
// may be wrong. So fail begins raft's Shutdown, and the goroutine ends with runtime.Goexit. That is safe because raft
// holds no mutex when it calls a store, and releases what a goroutine has, and answers other members, in deferred
// calls; callers of this package stop waiting when the member has stopped (await). Only the decoder of a pipeline would
// wait for the goroutine that sends, and there are no pipelines (startRaft).
func (l raftLog) check(err error) error {
	if err == nil || err == raft.ErrLogNotFound || err == ErrKeyNotFound { // raft compares them so
		return err
	}
	l.fail(err)
	runtime.Goexit()
	return err
}

// guarded runs fn on a goroutine of its own, and returns its error. It is for calls that may end their goroutine, or
// panic, as NewRaft does.
func guarded(fail func(error), fn func() error) (err error) {
	done := make(chan struct{})
	err = errors.New("cluster: the log's store or the state has failed") // fail has the cause
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("cluster: raft can't go on: %v", p)
				fail(err)
			}
		}()
		err = fn()
	}()
	<-done
	return err
}

// The methods below are those of raft.LogStore and raft.StableStore.

func (l raftLog) FirstIndex() (uint64, error) {
	index, err := l.LogStore.FirstIndex()
	return index, l.check(err)
}

func (l raftLog) LastIndex() (uint64, error) {
	index, err := l.LogStore.LastIndex()
	return index, l.check(err)
}

func (l raftLog) StoreLog(log *raft.Log) error { return l.check(l.LogStore.StoreLog(log)) }

func (l raftLog) StoreLogs(logs []*raft.Log) error { return l.check(l.LogStore.StoreLogs(logs)) }

func (l raftLog) Set(key, value []byte) error { return l.check(l.LogStore.Set(key, value)) }

func (l raftLog) SetUint64(key []byte, value uint64) error {
	return l.check(l.LogStore.SetUint64(key, value))
}

func (l raftLog) Get(key []byte) ([]byte, error) {
	value, err := l.LogStore.Get(key)
	return value, l.check(err)
}

func (l raftLog) GetUint64(key []byte) (uint64, error) {
	value, err := l.LogStore.GetUint64(key)
	return value, l.check(err)
}

// GetLog returns a command without its data if that is large.
func (l raftLog) GetLog(index uint64, log *raft.Log) error {
	return l.check(l.read(index, log, largeData))
}

// DeleteRange deletes entries behind a snapshot as far as the trail lets it, and others as raft says. An error of the
// first is returned: raft goes on after it, and somebody waits for the goroutine that takes snapshots.
func (l raftLog) DeleteRange(first, last uint64) error {
	end, err := l.LastIndex()
	if err != nil {
		return err
	}
	if last >= end { // all of the log, or the end of it
		return l.check(l.LogStore.DeleteRange(first, last))
	}
	t := l.trail
	t.cutting.Lock()
	defer t.cutting.Unlock()
	from := t.first(end)
	if last = min(last, from-1); last < first || from == 0 {
		return nil
	}
	bytes, _ := t.log.stored()
	if err := l.LogStore.DeleteRange(first, last); err != nil {
		l.fail(err)
		return err
	}
	if bytes >= t.opts.LogSize/4 {
		base.Wake(t.reclaim)
	}
	return nil
}

// largeData is how much data of a command raft gets at most.
const largeData = 32 << 10

// absent is the data of commands that have more.
var absent = []byte("not read")

// whole reads the data of an entry if raft has got the entry without it.
func (s *LogStore) whole(entry *raft.Log) error {
	if len(entry.Data) == 0 || &entry.Data[0] != &absent[0] {
		return nil
	}
	return s.GetLog(entry.Index, entry)
}

// maxMessage is how many bytes of entries a message has, unless a single one has more. Raft limits only
// the number of entries, and a message with 256 of several megabytes would not arrive within
// transportTimeout: a member that missed them would never catch up.
const maxMessage = 4 << 20

// load reads the data of the entries of a message, as many as fit into maxMessage bytes, and at least one. Raft takes
// from the request itself how far it has sent, and goes on from there.
func (l raftLog) load(req *raft.AppendEntriesRequest) error {
	size := 0
	for i, e := range req.Entries {
		if err := l.check(l.whole(e)); err != nil {
			return fmt.Errorf("cluster: read entry %d for a message: %w", e.Index, err)
		}
		if size += len(e.Data) + len(e.Extensions); size > maxMessage && i > 0 {
			req.Entries = req.Entries[:i:i]
			break
		}
	}
	return nil
}
