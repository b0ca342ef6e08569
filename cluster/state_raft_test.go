package cluster

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/vfs"
)

// A raftMember is a machine under raft, with a log in memory that survives restarts.
type raftMember struct {
	*machine
	id        raft.ServerID
	disk      *vfs.Mem
	log       *raft.InmemStore
	raft      *raft.Raft
	transport *raft.NetworkTransport
	peer      *raftMember // that gets its snapshots
	incoming  atomic.Pointer[snapshots]
}

// filesFirst sends the files of a snapshot before raft speaks of it.
type filesFirst struct {
	*raft.NetworkTransport
	m *raftMember
}

func (f filesFirst) InstallSnapshot(id raft.ServerID, a raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if _, err := transfer(data.(io.ReadCloser), f.m.peer.incoming.Load(), nil); err != nil {
		return err
	}
	return f.NetworkTransport.InstallSnapshot(id, a, req, resp, data)
}

// start starts the member. The caller stops it.
func (m *raftMember) start(t testing.TB, address string) {
	t.Helper()
	m.machine = mustStart(t, m.disk)
	m.incoming.Store(m.snaps)
	if err := settle(m.log, m.state); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.transport, err = raft.NewTCPTransport(address, nil, 2, time.Second, io.Discard); err != nil {
		t.Fatal(err)
	}
	c := raft.DefaultConfig()
	c.LocalID, c.LogOutput, c.NoSnapshotRestoreOnStart, c.NoLegacyTelemetry = m.id, io.Discard, true, true
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout, c.CommitTimeout =
		100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 5*time.Millisecond
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = 5, 1<<40, time.Hour
	if m.raft, err = raft.NewRaft(c, m.state, m.log, m.log, m.snaps, filesFirst{m.transport, m}); err != nil {
		t.Fatal(err)
	}
}

func (m *raftMember) stop(t testing.TB) {
	t.Helper()
	if err := m.raft.Shutdown().Error(); err != nil {
		t.Error(err)
	}
	_ = m.transport.Close()
	m.close()
}

// await waits until done, which must become true.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// TestState_UnderRaft lets raft make snapshots and send them: to a member that is empty, to one that is
// behind, and to one whose state and snapshots are gone.
func TestState_UnderRaft(t *testing.T) {
	t.Parallel()
	leader := &raftMember{id: "a", disk: vfs.NewMem(), log: raft.NewInmemStore()}
	leader.start(t, "127.0.0.1:0")
	defer leader.stop(t)
	err := leader.raft.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: leader.transport.LocalAddr()}}}).Error()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "election", func() bool { return leader.raft.State() == raft.Leader })
	n := 0
	write := func(count int) {
		t.Helper()
		for range count {
			n++
			data, err := encodePutIfAbsent(fmt.Appendf(nil, "key %d", n%40), fmt.Appendf(nil, "value %d", n))
			if err != nil {
				t.Fatal(err)
			}
			f := leader.raft.Apply(data, 0)
			if err := f.Error(); err != nil {
				t.Fatal(err)
			}
			if got := f.Response().(result); got.Inserted != (n <= 40) {
				t.Fatalf("write %d: %+v", n, got)
			}
		}
	}
	snapshot := func() {
		t.Helper()
		if err := leader.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
	}
	follower := &raftMember{id: "b", disk: vfs.NewMem(), log: raft.NewInmemStore()}
	leader.peer = follower
	same := func(m *raftMember) {
		t.Helper()
		await(t, "catching up", func() bool { return m.state.applied() >= leader.state.applied() })
		want, err := contents(leader.state.reader())
		if err != nil {
			t.Fatal(err)
		}
		got, err := contents(m.state.reader())
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d keys, want %d: %v", len(got), len(want), err)
		}
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("%s is %q, want %q", k, got[k], v)
			}
		}
	}

	write(100)
	snapshot()
	follower.start(t, "127.0.0.1:0")
	address := follower.transport.LocalAddr()
	if err := leader.raft.AddNonvoter("b", address, 0, 0).Error(); err != nil {
		t.Fatal(err)
	}
	same(follower)
	await(t, "the end of the empty state", func() bool {
		got := states(t, follower.disk)
		return got == "state-2" || got == "state-1 state-2"
	})

	follower.stop(t)
	write(100)
	snapshot()
	write(10)
	follower.start(t, string(address))
	same(follower)
	if len(follower.snaps.list) != 1 { // those before one that was received go
		t.Errorf("the member that was behind has %d snapshots", len(follower.snaps.list))
	}

	follower.stop(t)
	follower.disk, follower.log = vfs.NewMem(), raft.NewInmemStore() // under the same name: it has no vote
	follower.start(t, string(address))
	same(follower)
	write(10)
	same(follower)
	follower.stop(t)
}
