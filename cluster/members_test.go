package cluster

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

func TestMembers_AddByHand(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	m := &testMember{dir: "d", opts: Options{ID: "x", FS: vfs.NewMem(), Raft: fastRaft}}
	g.open(m)
	g.members = append(g.members, m)
	l := g.members[0]
	if err := l.AddLearner(short(t), "y", m.Address()); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("adding it under a wrong id: %v", err)
	}
	mustNil(t, l.AddLearner(short(t), "x", m.Address()))
	g.eventually("it reads", func() error { _, err := m.get(short(t), "k"); return err })
	if err := m.AddVoter(short(t), "x", m.Address()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower adds a voter: %v", err)
	}
	g.led("it gets a vote", func() error { return g.leader().AddVoter(short(t), "x", m.Address()) })
	g.waitVoters(2)
}

func TestMembers_Remove(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	g.agree()
	f := g.refuses("a follower removes one", func(f *testMember) error { return f.Remove(short(t), "nobody") })
	if err := g.leader().Remove(short(t), "nobody"); err == nil {
		t.Error("a member that is not there was removed")
	}
	g.remove(f.opts.ID)
	g.write("k", "w")
	l := g.leader()
	if members, err := l.Members(); len(members) != 2 || err != nil {
		t.Errorf("members = %v, %v", members, err)
	}
	if v, err := f.Local().Get([]byte("k")); err != nil || len(v) != 1 {
		t.Errorf("a removed member's state = %q, %v", v, err)
	}
	// It does not come back by itself, and does not disturb the others: it never begins a term.
	term := f.Stats().Term
	mustNil(t, f.Close())
	g.open(f)
	time.Sleep(time.Second)
	l = g.leader() // another one, if this machine has held the leader up
	if s := l.Stats(); s.Members != 2 || f.Stats().Term > term {
		t.Errorf("after the removed one came back, its term is %d, and was %d: %+v", f.Stats().Term, term, s)
	}
	// The leader removes itself, and the last one goes on.
	g.remove(l.opts.ID)
	var last *testMember
	for _, m := range g.members {
		if m != l && m != f {
			last = m
		}
	}
	g.eventually("the last one leads", func() error { return last.Put(short(t), []byte("k"), []byte("x")) })
	if members, err := last.Members(); len(members) != 1 || err != nil {
		t.Errorf("members = %v, %v", members, err)
	}
	if err := last.Remove(short(t), last.opts.ID); err == nil {
		t.Error("the last voter was removed")
	}
}

// A leader that shall remove itself is cut off, and comes back when it leads no more. The group of two goes on, and the one
// that leads has the other remove it.
func TestMembers_RemoveTheLeader(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	g := newGroup(t, 2, func(o *Options) {
		connections(o, func(c net.Conn, _ string) net.Conn { return broken(c, cut.Load) })
	})
	g.write("k", "v")
	g.agree()
	l := g.leader()
	cut.Store(true)
	if err := l.Remove(short(t), l.opts.ID); err == nil {
		t.Error("it has removed itself while it was cut off")
	}
	g.eventually("it leads no more", func() error {
		if l.IsLeader() {
			return errors.New("it does")
		}
		return nil
	})
	time.Sleep(time.Second) // nothing of before is on its way
	cut.Store(false)
	g.write("k", "w")
	g.eventually("it names the next leader", func() error {
		now := g.leader()
		err, other := now.Remove(short(t), now.opts.ID), (*NotLeaderError)(nil)
		if !errors.As(err, &other) || other.ID == "" || other.ID == now.opts.ID {
			return fmt.Errorf("Remove of the leader = %v", err)
		}
		return nil
	})
	gone := g.leader()
	g.remove(gone.opts.ID)
	g.eventually("one is left", func() error {
		for _, m := range g.members {
			if s := m.Stats(); m != gone && (s.Members != 1 || !m.IsLeader()) {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
}

// A leader takes a member in and sends it the change, but is cut off before the change is committed. The
// member knows itself as one, the next leader does not know it: it has to ask again.
func TestMembers_JoinsTwice(t *testing.T) {
	t.Parallel()
	var cut sync.Map // addresses that the leader can't reach
	var cutOff atomic.Pointer[string]
	g := newGroup(t, 3, func(o *Options) {
		id := o.ID
		connections(o, func(c net.Conn, address string) net.Conn {
			return broken(c, func() bool {
				_, to := cut.Load(address)
				from := cutOff.Load()
				return to && from != nil && *from == id
			})
		})
	})
	g.write("k", "v")
	g.agree()
	l := g.leader()
	m := &testMember{dir: "d", opts: Options{ID: "new", FS: vfs.NewMem(), Raft: fastRaft}}
	for _, other := range g.members {
		if other != l {
			cut.Store(other.Address(), true)
			m.opts.Join = append(m.opts.Join, other.Address())
		}
	}
	g.open(m) // it does not know where the leader is until another one tells
	cutOff.Store(&l.opts.ID)
	go func() { _, _ = l.takeIn(short(t), joinRequest{Server: m.server, Address: m.Address(), New: true}) }()
	g.members = append(g.members, m)
	g.waitVoters(4)
	g.agree()
}

// The founder of a group that is opened with Join later, as a program does that opens all members alike, is not
// taken in again after it was removed.
func TestMembers_RemovedFounder(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	founder := g.members[0]
	mustNil(t, founder.Close())
	founder.opts.Join = []string{g.members[1].Address(), g.members[2].Address()}
	g.open(founder)
	g.waitVoters(3)
	g.remove(founder.opts.ID)
	time.Sleep(2 * maintainLater) // it would ask again by now
	var err error
	for _, m := range g.members[1:] {
		members, e := m.Members()
		if err = e; len(members) != 2 {
			t.Errorf("%s knows the members %v, %v", m.opts.ID, members, err)
		}
	}
}

// The founder of a group has a new address and Join. Nobody else could tell the members that come where it is.
func TestMembers_FounderMoves(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, nil)
	founder := g.members[0]
	mustNil(t, founder.Close())
	founder.opts.Join, founder.opts.Listen = []string{founder.opts.Listen}, ""
	g.open(founder)
	founder.opts.Listen = founder.Address()
	g.eventually("it notes its address", func() error {
		if m, err := founder.Members(); err != nil || len(m) != 1 || m[0].Address != founder.Address() {
			return fmt.Errorf("members %v, %v", m, err)
		}
		return nil
	})
	g.add()
	g.waitVoters(2)
	g.agree()
}

// A change of the members that can't be committed for now may be made later.
func TestMembers_ChangeUnknown(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 2, nil)
	l, f := g.leader(), g.follower()
	mustNil(t, f.Close())
	m := &testMember{dir: "d", opts: Options{ID: "x", FS: vfs.NewMem(), Raft: fastRaft}}
	g.open(m)
	defer func() { _ = m.Close() }()
	wait := 50 * time.Millisecond
	g.eventually("its end is not known", func() error {
		wait *= 2
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		err := l.AddLearner(ctx, "x", m.Address())
		if errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotLeader) {
			return nil
		}
		if ctx.Err() == nil { // else the leader may not have found the member in time
			t.Errorf("AddLearner without a majority: %v", err)
		}
		return err
	})
	g.open(f)
}

// An empty directory under a member's id is refused until that is removed.
func TestMembers_IDTaken(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	f := g.follower()
	mustNil(t, f.Close())
	f.opts.FS, f.opts.Listen = vfs.NewMem(), ""
	g.open(f)
	req := joinRequest{Server: f.server, Address: f.Address(), New: true}
	g.led("an empty directory under its old id is refused", func() error {
		_, err := g.leader().takeIn(short(t), req)
		if errors.Is(err, ErrIDTaken) {
			return nil
		}
		return cmp.Or(err, errors.New("it is not"))
	})
	time.Sleep(3 * maintainSoon)
	if s := f.Stats(); s.Members != 0 || s.Term != 0 {
		t.Errorf("it takes part: %+v", s)
	}
	g.remove(f.opts.ID)
	g.waitVoters(3) // it has asked again
	g.agree()
}

// A member that did not hear of its removal, because it was not there, learns it from the others. One that is only cut off
// does not take itself for removed.
func TestMembers_RemovedMeanwhile(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	f := g.follower()
	mustNil(t, f.Close())
	g.remove(f.opts.ID)
	g.open(f)
	g.eventually("it says that it was removed", func() error {
		if s := f.Stats(); !s.Removed {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	l := g.leader()
	if l.Stats().Removed {
		t.Error("the leader says that it was removed")
	}
	mustNil(t, f.Close())
	// The other of the two that are left has no leader and nobody to ask.
	var rest *testMember
	for _, m := range g.members {
		if m != l && m != f {
			rest = m
		}
	}
	mustNil(t, l.Close())
	time.Sleep(2 * maintainLater)
	if s := rest.Stats(); s.Removed || s.Leader != "" {
		t.Errorf("one that is alone: %+v", s)
	}
}

// A member does not run in two places. One of the two directories is a copy of the other.
func TestMembers_Copy(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	f := g.follower()
	var cut atomic.Bool
	copied := func() (*Node, error) {
		o := f.opts
		o.FS, o.Listen, o.Join = f.opts.FS.(*vfs.Mem).Crash(vfs.CrashConfig{}), "", nil
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if cut.Load() {
				return nil, errors.New("cut off")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return Open(f.dir, &o)
	}
	refused := func(what string, n *Node, err error) {
		t.Helper()
		if !errors.Is(err, ErrIDTaken) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = n.Close() // it should not be there
		}
	}
	n, err := copied()
	refused("a copy of a running member", n, err)

	// Cut off, it finds nobody. It ends when it finds the leader.
	cut.Store(true)
	if n, err = copied(); err != nil {
		t.Fatal(err)
	}
	cut.Store(false)
	select {
	case <-n.Failed():
		if err := n.Err(); !errors.Is(err, ErrIDTaken) {
			t.Errorf("a copy that was cut off: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a copy that was cut off goes on")
	}
	_ = n.Close() // it has failed

	// The leader is gone, and nobody leads who could refuse the copy.
	l := g.leader()
	mustNil(t, l.Close())
	n, err = copied()
	refused("a copy while the leader is gone", n, err)
	g.open(l)

	// The copy has moved in while the original was closed.
	mustNil(t, f.Close())
	if n, err = copied(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	g.eventually("the member has moved", func() error {
		members, err := l.Members() // whoever leads: it may be the copy
		if err == nil && !slices.ContainsFunc(members, func(m Member) bool { return m.Address == n.Address() }) {
			err = fmt.Errorf("it is not at %s: %v", n.Address(), members)
		}
		return err
	})
	o, err := Open(f.dir, &f.opts)
	refused("the original of a copy that has moved in", o, err)
}

func TestMembers_OtherGroup(t *testing.T) {
	t.Parallel()
	a, b := newGroup(t, 1, nil), newGroup(t, 1, nil)
	var w whoAnswer
	err := a.members[0].caller.call(short(t), b.members[0].Address(), "", opWho, struct{}{}, &w)
	if !errors.Is(err, ErrOtherGroup) {
		t.Errorf("a call to another group: %v", err)
	}
	if err := a.members[0].AddLearner(short(t), "m0", b.members[0].Address()); !errors.Is(err, ErrOtherGroup) {
		t.Errorf("adding a member of another group: %v", err)
	}
	conn, err := a.members[0].network.dial(short(t), kindRaft, b.members[0].Address(), b.members[0].server)
	if !errors.Is(err, ErrOtherGroup) {
		t.Errorf("raft's connection to another group: %v, %v", conn, err)
	}
	if _, err := b.members[0].network.dial(short(t), kindRaft, b.members[0].Address(), "someone/else"); err == nil {
		t.Error("a connection for another member was accepted")
	}
}

func TestMembers_Transfer(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, nil)
	g.write("k", "v")
	f := g.refuses("a follower transfers", func(f *testMember) error { return f.TransferLeadership(short(t), "nobody") })
	l := g.leader()
	if err := l.TransferLeadership(short(t), "nobody"); err == nil {
		t.Error("the leadership went to nobody")
	}
	// Raft gives up after the time of an election, which a busy machine may need for something else.
	g.eventually("the leadership is transferred", func() error {
		if now := g.leader(); now != f {
			return cmp.Or(now.TransferLeadership(short(t), f.opts.ID), errors.New("the others do not know yet"))
		}
		if m, ok := l.Leader(); !ok || m.ID != f.opts.ID {
			return fmt.Errorf("the leader is %v", m)
		}
		return nil
	})
	g.write("k", "w")
}

func TestMembers_TLS(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustNil(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	mustNil(t, err)
	cert, err := x509.ParseCertificate(der)
	mustNil(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	secure := &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	g := newGroup(t, 3, func(o *Options) {
		o.TLS, o.Forward = secure, true
	})
	for _, m := range g.members {
		g.led("a write over TLS", func() error { return m.Put(short(t), []byte("k"), []byte(m.opts.ID)) })
		if v, err := m.get(short(t), "k"); v != m.opts.ID || err != nil {
			t.Errorf("read on %s = %q, %v", m.opts.ID, v, err)
		}
	}
	plain := &Options{ID: "plain", FS: vfs.NewMem(), Raft: fastRaft, Join: []string{g.members[0].Address()}}
	n, err := Open("d", plain)
	mustNil(t, err)
	defer func() { _ = n.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.askLeader(ctx, nil, opWho, nil, new(whoAnswer)); err == nil {
		t.Error("a member without TLS was answered")
	}
}

// A member gets its vote while another one is down, and then the leader is lost. The other one does not know of the vote, but
// its own is needed: two of three members are there, and go on.
func TestMembers_VoteUnknownToAnother(t *testing.T) {
	t.Parallel()
	for range 10 {
		g := newGroup(t, 2, func(o *Options) { o.Raft = steadyRaft })
		m := &testMember{dir: "d", opts: Options{ID: "x", FS: vfs.NewMem(), Raft: steadyRaft, Learner: true}}
		g.open(m)
		m.opts.Listen = m.Address()
		g.led("it is a learner", func() error { return g.leader().AddLearner(short(t), "x", m.Address()) })
		g.members = append(g.members, m)
		g.agree()
		l := g.leader()
		f := g.members[0]
		if f == l {
			f = g.members[1]
		}
		mustNil(t, f.Close())
		err := l.promote(short(t), m.server) // AddVoter waits for the other one before
		if err == nil {
			err = l.Put(short(t), []byte("k"), []byte("v"))
		}
		if err != nil { // on a busy machine the leader falls without the other one
			t.Logf("another try: %v", err)
			g.open(f)
			continue
		}
		mustNil(t, l.Close())
		g.open(f)
		if s := f.Stats(); s.Voters != 2 {
			t.Logf("another try: the other member knows %d voters already", s.Voters)
			continue
		}
		g.members = []*testMember{f, m}
		g.eventually("the two go on", func() error {
			v, err := m.get(short(t), "k")
			if err == nil && v != "v" {
				t.Errorf("what was acknowledged is %q", v)
			}
			return err
		})
		g.write("k", "w")
		return
	}
	t.Fatal("no try has come so far")
}
