package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestRaftLog_Errors has raft meet an error of the log on each of its goroutines that use it, where it would panic or go
// on. The member ends with the cause, and nothing of it is left after Close.
func TestRaftLog_Errors(t *testing.T) {
	testenv.CheckLeaks(t)
	gone := errors.New("the disk is gone")
	missing := func(m *testMember, index uint64) {
		mustNil(t, m.log.db.Delete(appendEntryKey(nil, index)))
	}
	for _, c := range []struct {
		name string
		do   func(g *testGroup, m *testMember, broken func())
		want string
	}{
		{"the term of an election", func(g *testGroup, m *testMember, broken func()) {
			mustNil(t, m.Close())
			g.open(m)
			broken()
		}, gone.Error()},
		{"entries", func(_ *testGroup, m *testMember, broken func()) {
			broken()
			if err := m.Put(short(t), []byte("k"), nil); !errors.Is(err, ErrUnknown) {
				t.Errorf("a write: %v", err)
			}
		}, gone.Error()},
		{"the log behind a snapshot", func(_ *testGroup, m *testMember, broken func()) {
			broken()
			if err := m.Snapshot(short(t)); err == nil {
				t.Errorf("Snapshot: %v", err)
			}
		}, gone.Error()},
		{"the entries of a message", func(g *testGroup, m *testMember, _ func()) {
			g.add()
			g.waitVoters(2)
			g.write("k", "v")
			g.eventually("the first member leads", func() error { return g.leader().TransferLeadership(short(t), m.opts.ID) })
			missing(m, m.Stats().Last)
		}, "is missing"},
	} {
		faults := map[string]*faultfs.FS{}
		g := newGroup(t, 1, func(o *Options) {
			f := faultfs.New(o.FS, nil)
			faults[o.ID], o.FS = f, f
			o.Raft = func(c *raft.Config) { fastRaft(c); c.TrailingLogs = 0 }
		})
		m := g.members[0]
		for range 5 {
			g.write("k", "v")
		}
		c.do(g, m, func() {
			faults[m.opts.ID].Inject(func(op vfs.Op, name string, _ int64) error {
				if strings.Contains(name, "member/log") && (op == vfs.OpSync || op == vfs.OpWrite || op == vfs.OpMapWrite) {
					return gone
				}
				return nil
			})
		})
		g.eventually("the member notices an error of "+c.name, func() error {
			if m.Err() == nil {
				return errors.New("it goes on")
			}
			return nil
		})
		if err := m.Err(); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Err = %v", c.name, err)
		}
		testenv.Within(t, 20*time.Second, "Close after an error of "+c.name, g.close)
	}
}

// TestRaftLog_UnreadableEntry opens a member whose log lacks an entry, which raft reads when it starts.
func TestRaftLog_UnreadableEntry(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	m := g.members[0]
	for range 5 {
		g.write("k", "v")
	}
	mustNil(t, errors.Join(m.log.db.Delete(appendEntryKey(nil, 3)), m.Close()))
	if _, err := Open(m.dir, &m.opts); err == nil || !strings.Contains(err.Error(), "entry 3 of the log is missing") {
		t.Errorf("Open = %v", err)
	}
}

func TestGuarded(t *testing.T) {
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

// TestRaftLog_Message reads large commands for a message as far as they fit into it, and one more.
func TestRaftLog_Message(t *testing.T) {
	t.Parallel()
	l := raftLog{LogStore: openLog(t, vfs.NewMem())}
	defer mustCloseLog(t, l.LogStore)
	const size = largeData + 1
	for i := uint64(1); i <= 200; i++ {
		mustStore(t, l.LogStore, &raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, size)})
	}
	mustStore(t, l.LogStore, &raft.Log{Index: 201, Term: 1, Type: raft.LogConfiguration, Data: make([]byte, size)})
	req := new(raft.AppendEntriesRequest)
	for i := uint64(1); i <= 201; i++ {
		e := new(raft.Log)
		mustNil(t, l.GetLog(i, e))
		if whole := len(e.Data) == size; whole != (i == 201) || e.Term != 1 {
			t.Fatalf("raft gets entry %d as %.100v", i, e)
		}
		req.Entries = append(req.Entries, e)
	}
	beyond := req.Entries[150]
	mustNil(t, l.load(req))
	if n := len(req.Entries); n != maxMessage/size || len(beyond.Data) == size {
		t.Errorf("%d entries are sent", n)
	}
	for i, e := range req.Entries {
		if e.Index != uint64(i+1) || len(e.Data) != size || e.Data[0] != byte(e.Index) {
			t.Fatalf("entry %d is %.100v", i+1, e)
		}
	}
	mustDelete(t, l.LogStore, 1, 150)
	if err := l.load(&raft.AppendEntriesRequest{Entries: []*raft.Log{{Index: 1, Data: absent}}}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that was deleted is sent: %v", err)
	}
}
