package cluster

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A guardedMember is a member of a group of raft's, whose log is in a guarded store.
type guardedMember struct {
	raft   *raft.Raft
	store  *LogStore
	fsys   *faultfs.FS
	fsm    *countingFSM
	failed chan error // what fail got; room for a second call, which would be wrong
	ending sync.Once
	end    raft.Future // of the one Shutdown: raft's later ones don't wait
}

// shutdown begins raft's end, and returns its future.
func (m *guardedMember) shutdown() raft.Future {
	m.ending.Do(func() { m.end = m.raft.Shutdown() })
	return m.end
}

// A countingFSM counts what it has applied, and calls onPersist in each snapshot.
type countingFSM struct {
	mu        sync.Mutex
	n         int
	onPersist func()
}

func (f *countingFSM) Apply(*raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n
}

func (f *countingFSM) Snapshot() (raft.FSMSnapshot, error) { return f, nil }
func (f *countingFSM) Restore(r io.ReadCloser) error       { return r.Close() }
func (f *countingFSM) Release()                            {}
func (f *countingFSM) Persist(sink raft.SnapshotSink) error {
	if f.onPersist != nil {
		f.onPersist()
	}
	return sink.Close()
}

// raftConfig returns settings with which a group of tests elects a leader at once, and takes snapshots only
// when it is told to.
func raftConfig(id string) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(id)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	c.CommitTimeout, c.TrailingLogs = 5*time.Millisecond, 1
	c.Logger = hclog.NewNullLogger()
	return c
}

// newGuarded returns a member that is not started.
func newGuarded(t *testing.T) *guardedMember {
	m := &guardedMember{fsys: faultfs.New(vfs.NewMem(), nil), fsm: &countingFSM{}, failed: make(chan error, 2)}
	m.store = openLog(t, m.fsys)
	t.Cleanup(func() { _ = m.store.db.Close() }) // it fails where the test has made it
	return m
}

// start starts raft.
func (m *guardedMember) start(id string, transport raft.Transport) error {
	var mu sync.Mutex // fail may be called before NewRaft has returned
	failed := false
	fail := func(err error) {
		m.failed <- err
		mu.Lock()
		defer mu.Unlock()
		if failed = true; m.raft != nil {
			m.shutdown()
		}
	}
	log := guard(m.store, fail)
	return guarded(fail, func() error {
		r, err := raft.NewRaft(raftConfig(id), m.fsm, log, log, raft.NewInmemSnapshotStore(), transport)
		mu.Lock()
		defer mu.Unlock()
		if m.raft = r; r != nil && failed {
			m.shutdown()
		}
		return err
	})
}

// mustEnd waits for the failure and for raft's end.
func (m *guardedMember) mustEnd(t *testing.T, cause error) {
	t.Helper()
	select {
	case err := <-m.failed:
		if !errors.Is(err, cause) {
			t.Errorf("fail got %v, want %v", err, cause)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the member does not fail")
	}
	mustAnswer(t, m.shutdown(), "") // when all of raft's goroutines have ended
	if err := m.raft.Apply([]byte("late"), time.Second).Error(); err == nil {
		t.Error("Apply succeeds after the failure")
	}
	if len(m.failed) > 0 {
		t.Errorf("fail was called again, with %v", <-m.failed)
	}
}

// mustAnswer waits for a future of raft's, which must not hang, and whose error must have a text, or be nil if that
// is "".
func mustAnswer(t *testing.T, f raft.Future, text string) {
	t.Helper()
	answer := make(chan error, 1)
	go func() { answer <- f.Error() }()
	select {
	case err := <-answer:
		if (err != nil) != (text != "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%T: error = %v, want one with %q", f, err, text)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%T: it is never answered", f)
	}
}

// group starts n members that know each other, and returns them, the leader first.
func group(t *testing.T, n int) []*guardedMember {
	var servers []raft.Server
	var transports []*raft.InmemTransport
	for i := range n {
		_, transport := raft.NewInmemTransportWithTimeout(raft.ServerAddress(fmt.Sprint("m", i)), 100*time.Millisecond)
		transports = append(transports, transport)
		servers = append(servers, raft.Server{ID: raft.ServerID(transport.LocalAddr()), Address: transport.LocalAddr()})
	}
	var members []*guardedMember
	for i, transport := range transports {
		for j, other := range transports {
			if i != j {
				transport.Connect(other.LocalAddr(), other)
			}
		}
		m := newGuarded(t)
		err := raft.BootstrapCluster(raftConfig(string(transport.LocalAddr())), m.store, m.store, raft.NewInmemSnapshotStore(), transport,
			raft.Configuration{Servers: servers})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.start(string(transport.LocalAddr()), transport); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !t.Failed() {
				mustAnswer(t, m.shutdown(), "")
			}
		})
		members = append(members, m)
	}
	leaderFirst(t, members)
	return members
}

// leaderFirst waits for a leader that takes entries, and swaps it to the front.
func leaderFirst(t *testing.T, members []*guardedMember) {
	t.Helper()
	testenv.WaitFor(t, "a leader", func() bool {
		for i, m := range members {
			if m.raft.State() == raft.Leader && m.raft.Apply([]byte("x"), time.Second).Error() == nil {
				members[0], members[i] = m, members[0]
				return true
			}
		}
		return false
	})
}

// The operations that a disk fails when it can't be written.
var writing = []vfs.Op{vfs.OpWrite, vfs.OpMapWrite, vfs.OpSync, vfs.OpPreallocate}

// TestGuard_Group breaks the disk of a leader, or of a follower, while entries are written. That member
// ends without a panic, and the others go on.
func TestGuard_Group(t *testing.T) {
	testenv.CheckLeaks(t)
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, who := range []int{0, 1} {
			t.Run(fmt.Sprint(cause, " at member ", who), func(t *testing.T) {
				members := group(t, 3)
				victim := members[who]
				stop := make(chan struct{})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
							}
							for _, m := range members {
								_ = m.raft.Apply(make([]byte, 100), 50*time.Millisecond).Error() // only the leader takes it
							}
						}
					})
				}
				time.Sleep(20 * time.Millisecond)
				victim.fsys.Inject(faultfs.FailFrom(3, cause, writing...))
				victim.mustEnd(t, cause)
				victim.fsys.Inject(nil) // a disk that works again does not bring it back
				rest := append(members[:who:who], members[who+1:]...)
				leaderFirst(t, rest)
				close(stop)
				testenv.Within(t, 20*time.Second, "the writers", wg.Wait)
			})
		}
	}
}

// TestGuard_Term lets the term not be saved, where raft would panic.
func TestGuard_Term(t *testing.T) {
	testenv.CheckLeaks(t)
	m := group(t, 1)[0]
	mustAnswer(t, m.shutdown(), "")
	m.ending = sync.Once{}
	m.fsm.n = 0
	m.fsys.Inject(faultfs.FailFrom(1, syscall.EIO, writing...))
	_, transport := raft.NewInmemTransport("m0")
	if err := m.start("m0", transport); err == nil {
		m.mustEnd(t, syscall.EIO) // the election begins a term
	} else if cause := <-m.failed; err != errGuarded || !errors.Is(cause, syscall.EIO) { // NewRaft saves the term it has read
		t.Errorf("NewRaft = %v, cause %v", err, cause)
	}
}

// TestGuard_Truncation lets the truncation behind a snapshot fail, which raft does on a goroutine of its own.
func TestGuard_Truncation(t *testing.T) {
	testenv.CheckLeaks(t)
	m := group(t, 1)[0]
	for range 20 {
		if err := m.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
	}
	m.fsm.onPersist = func() { m.fsys.Inject(faultfs.FailFrom(1, syscall.EIO, writing...)) }
	taken := m.raft.Snapshot()
	m.mustEnd(t, syscall.EIO)
	mustAnswer(t, taken, syscall.EIO.Error())
}

// TestGuard_UnreadableEntry opens raft on a log that lacks an entry, where NewRaft panics, and so does a raft
// that is to apply it.
func TestGuard_UnreadableEntry(t *testing.T) {
	testenv.CheckLeaks(t)
	m := group(t, 1)[0]
	for range 5 {
		if err := m.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
	}
	mustAnswer(t, m.shutdown(), "")
	m.ending = sync.Once{}
	if err := m.store.db.Delete(appendEntryKey(nil, 3)); err != nil {
		t.Fatal(err)
	}
	_, transport := raft.NewInmemTransport("m0")
	err := m.start("m0", transport)
	if cause := <-m.failed; err != errGuarded || !strings.Contains(cause.Error(), "entry 3 of the log is missing") {
		t.Errorf("NewRaft = %v, cause %v", err, cause)
	}
}

// TestGuarded_Panic runs a call that panics.
func TestGuarded_Panic(t *testing.T) {
	t.Parallel()
	var failed error
	err := guarded(func(err error) { failed = err }, func() error { panic("at the disco") })
	if err == nil || err != failed || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("guarded = %v, fail got %v", err, failed)
	}
	if err := guarded(nil, func() error { return io.EOF }); err != io.EOF {
		t.Errorf("guarded = %v, want the error of the call", err)
	}
}
