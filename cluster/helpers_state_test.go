package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A history is what a group has agreed on: entry i has index i + 1. After entry i the state is at(i + 1).
type history []*raft.Log

// newHistory makes n entries: writes, which also delete ranges, puts that depend on absence, deletions that ask, transactions that have read the
// present state or one of a few entries before, and some that are no commands.
func newHistory(t testing.TB, n int, seed uint64) history {
	r := rand.New(rand.NewPCG(seed, 0))
	key := func() []byte { return fmt.Appendf(nil, "key %02d", r.IntN(30)) }
	value := func() []byte { return fmt.Appendf(nil, "%0*d", 1+r.IntN(200), r.Uint32()) }
	batch := func() *shale.Batch {
		b := new(shale.Batch)
		for range 1 + r.IntN(3) {
			switch r.IntN(9) {
			case 0, 1, 2:
				mustNil(t, b.Delete(key()))
			case 3:
				lower := r.IntN(30)
				upper := fmt.Appendf(nil, "key %02d", lower+1+r.IntN(4))
				if lower > 27 {
					upper = nil
				}
				mustNil(t, b.DeleteRange(fmt.Appendf(nil, "key %02d", lower), upper))
			default:
				mustNil(t, b.Put(key(), value()))
			}
		}
		return b
	}
	now := model{}
	before := []model{now} // the last few states
	var h history
	for i := range n {
		e := &raft.Log{Index: uint64(i + 1), Term: uint64(1 + i/50), Type: raft.LogCommand}
		var err error
		switch kind := r.IntN(13); {
		case i == n-1 || kind < 5:
			e.Data, err = encodeWrite(batch())
		case kind < 7:
			e.Data, err = encodePutIfAbsent(key(), value(), time.Time{})
		case kind < 8:
			e.Data, err = encodeDelete([][]byte{key(), key()})
		case kind < 11:
			m := before[r.IntN(len(before))]
			o := new(observed)
			for range r.IntN(3) {
				o.keys = append(o.keys, m.key(string(key())))
			}
			for range r.IntN(3) {
				if l, u := string(key()), string(key()); l < u {
					o.ranges = append(o.ranges, m.scan(l, u))
				}
			}
			e.Data, err = encodeUpdate(o, batch(), 0, nil)
		case kind < 12:
			e.Type = raft.LogConfiguration
		default:
			e.Type = raft.LogNoop
		}
		mustNil(t, err)
		now.apply(e)
		if before = append(before, maps.Clone(now)); len(before) > 4 {
			before = before[1:]
		}
		h = append(h, e)
	}
	return h
}

// A model is what the state must be. It has its own way to look at what a transaction has observed.
type model map[string]string

func (m model) key(key string) observedKey {
	if v, ok := m[key]; ok {
		return observedKey{[]byte(key), sha256.Sum256([]byte(v))}
	}
	return observedKey{key: []byte(key)}
}

func (m model) scan(lower, upper string) observedRange {
	var all []byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if lower <= k && k < upper {
			all = append(binary.AppendUvarint(all, uint64(len(k))), k...)
			all = append(binary.AppendUvarint(all, uint64(len(m[k]))), m[k]...)
		}
	}
	return observedRange{[]byte(lower), []byte(upper), uint64(len(all)), sha256.Sum256(all)}
}

// lost returns the number of what the model has otherwise.
func (m model) lost(o *observed) int {
	for i, k := range o.keys {
		if m.key(string(k.key)).sum != k.sum {
			return i + 1
		}
	}
	for i, r := range o.ranges {
		if m.scan(string(r.lower), string(r.upper)).sum != r.sum {
			return len(o.keys) + i + 1
		}
	}
	return 0
}

// apply changes the model by an entry, and returns the answer.
func (m model) apply(e *raft.Log) (r result) {
	if e.Type != raft.LogCommand {
		return result{}
	}
	c, err := decodeCommand(e.Data)
	if err != nil {
		panic(err)
	}
	if c.kind == kindUpdate {
		if r.Lost = m.lost(&c.observed); r.Lost > 0 {
			return r
		}
		r.Done = true
	}
	for op := range c.batch.Ops() {
		_, there := m[string(op.Key)]
		switch c.kind {
		case kindPutIfAbsent:
			if there {
				return r
			}
			r.Done = true
		case kindDelete:
			r.Present = append(r.Present, there)
		}
		switch op.Kind {
		case shale.OpDelete:
			delete(m, string(op.Key))
		case shale.OpDeleteRange:
			maps.DeleteFunc(m, func(key, _ string) bool {
				return key >= string(op.Key) && (op.Value == nil || key < string(op.Value))
			})
		default:
			m[string(op.Key)] = string(op.Value)
		}
	}
	return r
}

// at returns the state after the entry with this index, and the answers to all commands up to there.
func (h history) at(index uint64) (map[string]string, []result) {
	m, answers := model{}, make([]result, index)
	for i, e := range h[:index] {
		answers[i] = m.apply(e)
	}
	return m, answers
}

// lastCommand returns the index of the last command up to index.
func (h history) lastCommand(index uint64) uint64 {
	for index > 0 && h[index-1].Type != raft.LogCommand {
		index--
	}
	return index
}

// A machine is the part of a member that is under test: snapshots and state on a disk.
type machine struct {
	t      testing.TB
	snaps  *snapshots
	state  *state
	failed chan error
}

const machineDir = "member"

// stateOptions make small tables, so that few entries make many of them.
func stateOptions() *shale.Options {
	return &shale.Options{MemtableSize: 4 << 10, CacheSize: 64 << 10, Logger: slog.New(slog.DiscardHandler)}
}

func startMachine(t testing.TB, fsys vfs.FS) (*machine, error) {
	return startMachineOf(t, fsys, stateOptions())
}

func startMachineOf(t testing.TB, fsys vfs.FS, o *shale.Options) (*machine, error) {
	m := &machine{t: t, failed: make(chan error, 1)}
	if err := fsys.MkdirAll(machineDir); err != nil {
		return nil, err
	}
	var err error
	if m.snaps, err = openSnapshots(fsys, filepath.Join(machineDir, "snapshots")); err != nil {
		return nil, err
	}
	m.state, err = openState(machineDir, (&Options{FS: fsys, Store: o}).withDefaults(), nil, m.snaps, func(err error) { m.failed <- err })
	return m, err
}

func mustStart(t testing.TB, fsys vfs.FS) *machine {
	t.Helper()
	m, err := startMachine(t, fsys)
	mustNil(t, err)
	return m
}

func (m *machine) close() {
	m.t.Helper()
	mustNil(m.t, m.state.Close())
}

// apply gives the entries behind from up to to, in pieces, as raft does: on a goroutine of its own, and
// without no-ops. It returns the error of a failed apply.
func (m *machine) apply(h history, from, to uint64, piece int) ([]result, error) {
	answers := make([]result, to)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for from < to {
			next := min(from+uint64(piece), to)
			var entries []*raft.Log
			for _, e := range h[from:next] {
				if e.Type == raft.LogCommand || e.Type == raft.LogConfiguration {
					entries = append(entries, e)
				}
			}
			if len(entries) > 0 {
				for i, r := range m.state.ApplyBatch(entries) {
					answers[entries[i].Index-1] = r.(result)
				}
			}
			from = next
		}
	}()
	<-done
	select {
	case err := <-m.failed:
		return answers, err
	default:
		return answers, nil
	}
}

func (m *machine) mustApply(h history, from, to uint64, piece int) {
	m.t.Helper()
	_, err := m.apply(h, from, to, piece)
	mustNil(m.t, err)
}

// snapshot takes one as raft does after the entry with this index.
func (m *machine) snapshot(h history, index uint64) error {
	snap, err := m.state.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	sink, err := m.snaps.Create(1, index, h[index-1].Term, someServers, 1, nil)
	if err != nil {
		return err
	}
	if err := snap.Persist(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

var someServers = raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Nonvoter, ID: "a/1", Address: "127.0.0.1:1"}}}

// fetch takes the newest snapshot of another machine into the snapshots of this one, as raft does, and
// returns its name.
func (m *machine) fetch(from *machine) (id string, err error) {
	metas, err := from.snaps.List()
	if err != nil {
		return "", err
	}
	meta, stream, err := from.snaps.Open(metas[0].ID)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	if _, err := transfer(stream, m.snaps, nil); err != nil {
		return "", err
	}
	sink, err := m.snaps.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		return "", err
	}
	n, err := io.Copy(sink, stream)
	if err == nil && n != meta.Size {
		err = fmt.Errorf("received %d bytes of %d", n, meta.Size)
	}
	if err != nil {
		return "", errors.Join(err, sink.Cancel())
	}
	return sink.ID(), sink.Close()
}

// transfer sends the files of an open snapshot, over a connection that wrap may change, and returns how many bytes of
// content were sent.
func transfer(stream io.ReadCloser, to *snapshots, wrap func(net.Conn) net.Conn) (sent int64, err error) {
	r := stream.(*snapshotReader)
	a, b := net.Pipe()
	var conn net.Conn = stallingConn{a, time.Minute}
	if wrap != nil {
		conn = wrap(conn)
	}
	received := make(chan error, 1)
	go func() { received <- errors.Join(to.receive(stallingConn{b, time.Minute}), b.Close()) }()
	s := fileSender{fs: r.snaps.fs, dir: r.snap.store(), conn: conn, pace: func(int) error { return nil }}
	err = s.send(r.list)
	_ = conn.Close()
	return s.sent, errors.Join(<-received, err)
}

// receive fetches a snapshot and restores the state from it.
func (m *machine) receive(from *machine) error {
	id, err := m.fetch(from)
	if err != nil {
		return err
	}
	_, own, err := m.snaps.Open(id)
	if err != nil {
		return err
	}
	defer own.Close()
	return m.state.Restore(wrapped{own})
}

// wrapped is a wrapper like raft's.
type wrapped struct{ io.ReadCloser }

func (w wrapped) WrappedReadCloser() io.ReadCloser { return w.ReadCloser }

// contents returns all that a reader shows.
func contents(r shale.Reader) (map[string]string, error) {
	got := map[string]string{}
	for e, err := range r.Scan(shale.Range{}) {
		if err != nil {
			return nil, err
		}
		got[string(e.Key)] = string(e.Value)
	}
	return got, nil
}

// check compares the state with the history. The state is at the position that its store says.
func (m *machine) check(h history) error {
	at, err := readPosition(m.state.current.Load().db)
	if err != nil {
		return err
	}
	applied := m.state.applied()
	if at.index > applied || h.lastCommand(applied) > at.index {
		return fmt.Errorf("the store is at %d, and the state says %d", at.index, applied)
	}
	if at.index > 0 && at.term != h[at.index-1].Term {
		return fmt.Errorf("entry %d has term %d in the store", at.index, at.term)
	}
	got, err := contents(m.state.reader())
	if err != nil {
		return err
	}
	if want, _ := h.at(at.index); !maps.Equal(got, want) {
		return fmt.Errorf("after entry %d the state is\n%v, want\n%v", at.index, got, want)
	}
	return nil
}

// mustBe fails the test unless the state has all commands up to index.
func (m *machine) mustBe(h history, index uint64) {
	m.t.Helper()
	if got := m.state.applied(); got < h.lastCommand(index) || got > index {
		m.t.Fatalf("the state is at %d, want %d", got, index)
	}
	mustNil(m.t, m.check(h))
}

// crashesOf returns what a power cut leaves of a disk before each of the operations that fn makes.
func crashesOf(disk *vfs.Mem, fn func()) (images []*vfs.Mem) {
	var mu sync.Mutex
	disk.OnOp(func(vfs.Op, string) {
		image := disk.Crash(vfs.CrashConfig{})
		mu.Lock()
		defer mu.Unlock()
		images = append(images, image)
	})
	defer disk.OnOp(nil)
	fn()
	return images
}
