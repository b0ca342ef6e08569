package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

func TestNode_WritesAndReads(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	for _, m := range g.members {
		if v, err := m.get(short(t), "k"); v != "v" || err != nil {
			t.Errorf("read on %s = %q, %v, want v", m.opts.ID, v, err)
		}
	}
	n := 0
	g.led("an absent key is put, and deleted", func() error {
		n++
		l, key := g.leader(), fmt.Append(nil, "new", n)
		ok, err := l.PutIfAbsent(short(t), []byte("k"), []byte("w"))
		if ok {
			t.Error("PutIfAbsent has put a present key")
		}
		if err == nil {
			if ok, err = l.PutIfAbsent(short(t), key, []byte("w")); !ok && err == nil {
				t.Error("PutIfAbsent has not put an absent key")
			}
		}
		if err == nil {
			var present []bool
			if present, err = l.DeletePresent(short(t), key, []byte("none"), key); err == nil && fmt.Sprint(present) != "[true false false]" {
				t.Errorf("DeletePresent = %v", present)
			}
		}
		return err
	})
	l := g.leader()
	if _, err := l.DeletePresent(short(t)); !errors.Is(err, shale.ErrBatchNotWritable) {
		t.Errorf("DeletePresent of nothing: %v", err)
	}
	g.led("it is deleted", func() error { return g.leader().Delete(short(t), []byte("k")) })
	if v, err := g.follower().get(short(t), "k"); v != "" || err != nil {
		t.Errorf("a deleted key = %q, %v", v, err)
	}
	g.write("range 1", "v")
	g.write("range 2", "v")
	g.led("a range is deleted", func() error { return g.leader().DeleteRange(short(t), []byte("range"), []byte("range 2")) })
	if got := fmt.Sprint(g.agree()); strings.Contains(got, "range 1") || !strings.Contains(got, "range 2") {
		t.Errorf("after a range delete: %s", got)
	}
	if err := l.DeleteRange(short(t), []byte("z"), []byte("a")); err != nil {
		t.Errorf("a range without keys: %v", err)
	}
	b := new(shale.Batch)
	_ = b.Put([]byte(strings.Repeat("\xff", 32)), nil)
	if err := l.Write(short(t), b); !errors.Is(err, ErrReservedKey) {
		t.Errorf("a write to a reserved key: %v", err)
	}
	g.agree()
}

func TestNode_FollowersRefuseWrites(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	n := 0
	f := g.refuses("a write that names the leader", func(f *testMember) error {
		n++
		err := f.Put(short(t), fmt.Append(nil, n), []byte("v"))
		l := (*NotLeaderError)(nil)
		if leader := g.leader(); errors.As(err, &l) && (l.ID != leader.opts.ID || l.Address != leader.Address()) {
			return fmt.Errorf("it names %q at %s, want %q at %s", l.ID, l.Address, leader.opts.ID, leader.Address())
		}
		return err
	})
	if v, err := f.get(short(t), fmt.Sprint(n)); v != "" || err != nil {
		t.Errorf("the write that was refused: %q, %v", v, err)
	}
}

// A member that comes back under another address tells it to the others, also if it is not asked to
// join.
func TestNode_NewAddress(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	f := g.follower()
	mustNil(t, f.Close())
	f.opts.Listen, f.opts.Join = "", nil
	g.open(f)
	g.eventually("the address", func() error {
		members, err := g.leader().Members()
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.ID == f.opts.ID && m.Address == f.Address() && m.Voter {
				return nil
			}
		}
		return errors.New("is the old one")
	})
	g.write("k", "v")
	g.agree()
}

func TestNode_NoMajority(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	l := g.leader()
	for _, m := range g.members {
		if m != l {
			mustNil(t, m.Close())
			defer g.open(m)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.Put(ctx, []byte("k"), []byte("w")); !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotLeader) {
		t.Errorf("a write without a majority: %v", err)
	}
	if _, err := l.get(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read without a majority: %v", err)
	}
	if v, err := l.Local().Get([]byte("k")); string(v) != "v" || err != nil {
		t.Errorf("a local read without a majority = %q, %v", v, err)
	}
}

func TestNode_Close(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	n := g.members[0]
	g.write("k", "v")
	inside, leave := make(chan struct{}), make(chan struct{})
	read := make(chan error)
	go func() {
		read <- n.Read(context.Background(), func(r shale.Reader) error {
			close(inside)
			<-leave
			_, err := r.Get([]byte("k"))
			return err
		})
	}()
	<-inside
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	eventually(t, "new calls are refused", func() error {
		if err := n.Put(short(t), []byte("k"), nil); !errors.Is(err, ErrClosed) {
			return errors.New("not yet")
		}
		return nil
	})
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait for a reader: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	mustNil(t, errors.Join(<-read, <-closed, n.Close()))
	err := n.Read(context.Background(), func(shale.Reader) error { return nil })
	if _, merr := n.Members(); !errors.Is(err, ErrClosed) || !errors.Is(merr, ErrClosed) {
		t.Errorf("after Close: %v, %v", err, merr)
	}
	if files := n.opts.FS.(*vfs.Mem).OpenFiles(); files != 0 {
		t.Errorf("%d files are left open", files)
	}
}

func TestOpen_Refusals(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	m := g.members[0]
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no id":           {func(o *Options) { o.ID = "" }, "Options.ID"},
		"bad id":          {func(o *Options) { o.ID = "a/b" }, "Options.ID"},
		"join nobody":     {func(o *Options) { o.Join = []string{":7000"} }, "Options.Join"},
		"no host":         {func(o *Options) { o.Listen = ":0" }, "Options.Advertise"},
		"no port":         {func(o *Options) { o.Listen = "localhost" }, "Options.Listen"},
		"bad advertise":   {func(o *Options) { o.Advertise = "0.0.0.0:1" }, "Options.Advertise"},
		"read-only":       {func(o *Options) { o.Store = &shale.Options{ReadOnly: true} }, "Options.Store.ReadOnly"},
		"heartbeat":       {func(o *Options) { o.Raft = func(c *raft.Config) { c.HeartbeatTimeout = 1 } }, "HeartbeatTimeout"},
		"lease":           {func(o *Options) { o.Raft = func(c *raft.Config) { c.LeaderLeaseTimeout = time.Hour } }, "LeaderLeaseTimeout"},
		"raft's id":       {func(o *Options) { o.Raft = func(c *raft.Config) { c.LocalID = "x" } }, "LocalID"},
		"raft's restores": {func(o *Options) { o.Raft = func(c *raft.Config) { c.NoSnapshotRestoreOnStart = false } }, "NoSnapshotRestoreOnStart"},
	} {
		o := Options{ID: "x", FS: vfs.NewMem()}
		c.change(&o)
		n, err := Open("d", &o)
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that names %s", name, err, c.want)
		}
		if files := o.FS.(*vfs.Mem).OpenFiles(); files != 0 {
			t.Errorf("%s: %d files are left open", name, files)
		}
	}
	again := m.opts
	again.Listen = ""
	if _, err := Open(m.dir, &again); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a directory that is open: %v", err)
	}
	mustNil(t, m.Close())
	again.ID = "other"
	if _, err := Open(m.dir, &again); err == nil || !strings.Contains(err.Error(), `"m0"`) {
		t.Errorf("a directory of another id: %v", err)
	}
	again.ID = "m0"
	mustNil(t, again.FS.Remove("member/MEMBER"))
	if _, err := Open(m.dir, &again); err == nil || !strings.Contains(err.Error(), "MEMBER") {
		t.Errorf("a directory that has lost its name: %v", err)
	}
}

// A leader is cut off with writes that are never committed, and comes back when the others have fewer
// entries and have cut their log off. It gets a snapshot, and ends, because raft has to be started again.
func TestNode_LostEnd(t *testing.T) {
	t.Parallel()
	var cut sync.Map // ids and addresses
	g := newGroup(t, 3, func(o *Options) {
		id := o.ID
		o.Raft = func(c *raft.Config) {
			fastRaft(c)
			c.TrailingLogs = 0
		}
		connections(o, func(c net.Conn, address string) net.Conn {
			return broken(c, func() bool {
				_, from := cut.Load(id)
				_, to := cut.Load(address)
				return from || to
			})
		})
	})
	var old *testMember
	g.eventually("it has many writes", func() error { // unless it has fallen before
		cut.Clear()
		g.write("k", "1")
		g.agree()
		old = g.leader()
		before := old.raft().LastIndex()
		cut.Store(old.opts.ID, true)
		cut.Store(old.Address(), true)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { _ = old.Put(short(t), fmt.Append(nil, i), nil) }) // unknown, and never there
		}
		wg.Wait()
		if n := old.raft().LastIndex() - before; n < 100 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	g.eventually("another leader", func() error {
		for _, m := range g.members {
			if m != old && m.IsLeader() {
				return m.Put(short(t), []byte("k"), []byte("2"))
			}
		}
		return errors.New("none")
	})
	for _, m := range g.members {
		if m != old {
			g.eventually("the write", func() error { _, err := m.get(short(t), "k"); return err })
			mustNil(t, m.Snapshot(short(t)))
		}
	}
	cut.Clear()
	select {
	case <-old.Failed():
	case <-time.After(20 * time.Second):
		t.Fatal("the member goes on")
	}
	if err := old.Err(); !errors.Is(err, ErrFailed) || !errors.Is(err, errLostEnd) {
		t.Fatalf("the member has ended with %v", err)
	}
	mustNil(t, old.Close())
	g.open(old)
	if v, err := old.get(short(t), "k"); v != "2" || err != nil {
		t.Errorf("read on the member = %q, %v", v, err)
	}
	g.agree()
}
