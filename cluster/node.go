package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// Names in a member's directory, next to memberFile. The states are state.go's.
const (
	lockFile     = "LOCK"
	logDir       = "log"
	snapshotsDir = "snapshots"
)

const (
	transportTimeout = 10 * time.Second // for raft's messages, an fsync and a stalled state included
	transportConns   = 3                // kept to each member: heartbeats, entries, votes

	// closeGrace is how long Close waits for writes that are under way.
	closeGrace = 5 * time.Second
)

// A Node is a running member of a group. All methods may be called concurrently.
type Node struct {
	// Constant after Open.
	opts      *Options
	dir       string
	server    raft.ServerID // by which raft knows this member
	config    *raft.Config
	network   *network
	caller    *caller
	logDB     *shale.DB
	log       *LogStore // raft has it guarded
	snapshots *snapshots
	state     *state
	lock      io.Closer
	reads     rounds // of steps 1 to 3 of a read
	indexes   rounds // of steps 1 and 2, on the leader

	ctx       context.Context // ends when the member has stopped
	cancel    context.CancelFunc
	wg        sync.WaitGroup // goroutines of this package; Close waits
	restartMu sync.Mutex     // held while raft is started again, or stopped for good
	changeMu  sync.Mutex     // held while the leader changes the members, one change at a time

	failedOnce sync.Once
	failed     chan struct{} // closed after failure is set
	failure    error
	stopping   chan struct{} // closed when Close begins or the member has failed
	stopOnce   sync.Once     // for stopping
	raftOnce   sync.Once     // for stopRaft
	stopped    chan struct{} // closed when raft has stopped: what it has not answered it never will
	closeOnce  sync.Once
	closeErr   error

	raftNow      atomic.Pointer[raft.Raft] // nil while Open has not got so far; see restartRaft
	caughtUp     atomic.Uint64             // the state has all commands up to this index, or more
	ownEntryTerm atomic.Uint64             // the last term in which this leader has committed an entry

	// Protected by mu.
	mu      sync.Mutex
	id      identity // only Group changes, once
	probers map[raft.ServerID]*prober
	closed  bool
	calls   sync.WaitGroup // those that began before closed was set
}

// Open opens the member whose files are in dir, or makes a new one there. The member begins to take
// part at once: it finds the others by what its directory knows, or joins by Options.Join. Open
// does not wait for a leader; calls wait for it, as far as their contexts let them.
//
// A directory belongs to one running member. It may be moved to another machine, but must never be
// copied to become two members.
func Open(dir string, o *Options) (*Node, error) {
	o = o.withDefaults()
	n, err := open(dir, o, false)
	if err != nil && renews(err) && len(o.Join) > 0 {
		n, err = open(dir, o, true)
	}
	if err != nil && renews(err) {
		err = fmt.Errorf("%w. To make a new member of it, open it with Options.Join, or remove the member at the leader and "+
			"its directory here, and let it join again", err)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: open %s: %w", dir, err)
	}
	return n, nil
}

func open(dir string, o *Options, renew bool) (_ *Node, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		opts: o, dir: dir, probers: map[raft.ServerID]*prober{},
		failed: make(chan struct{}), stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.reads = rounds{node: n, fn: func(ctx context.Context) (uint64, error) { return 0, n.readRound(ctx) }}
	n.indexes = rounds{node: n, fn: n.confirmedIndex}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.release())
		}
	}()
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, err
	}
	if n.lock, err = lockDir(o.FS, dir); err != nil {
		return nil, err
	}
	if n.id, err = loadIdentity(o.FS, dir, o.ID); err != nil {
		return nil, err
	}
	if o.Bootstrap && n.id.Group != "" {
		return nil, fmt.Errorf("%w: %s", ErrBootstrapped, n.id.Group)
	}
	if renew {
		if err := n.renew(); err != nil {
			return nil, err
		}
	}
	if n.id.Renewing {
		if err := n.moveOldStores(); err != nil {
			return nil, err
		}
	}
	n.server = n.id.server()
	if n.config, err = o.raftConfig(n.server); err != nil {
		return nil, err
	}
	if n.network, err = listen(o); err != nil {
		return nil, err
	}
	n.network.welcome, n.network.serve, n.network.greet = n.welcome, n.serveCalls, n.hello
	n.caller = &caller{network: n.network, idle: map[callee][]*callConn{}}
	if err := n.openStores(); err != nil {
		return nil, err
	}
	if err := n.endRenewal(); err != nil {
		return nil, err
	}
	if err := n.startRaft(); err != nil {
		return nil, err
	}
	n.network.start()
	n.wg.Go(n.maintain)
	return n, nil
}

// lockDir takes the lock of a member's directory.
func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	l, err := fsys.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("it is open already: %w", err)
	}
	return l, err
}

// openStores opens the stores of the log, the snapshots and the state, and makes or repairs the
// group if the options or the file peers.json say so.
func (n *Node) openStores() error {
	if err := n.checkLog(); err != nil {
		return err
	}
	o := LogStoreOptions()
	o.FS, o.Logger = n.opts.FS, n.opts.Store.Logger
	var err error
	if n.logDB, err = shale.Open(filepath.Join(n.dir, logDir), o); err != nil {
		if isDamage(err) {
			return fmt.Errorf("%w: %w", errDamagedLog, err)
		}
		return err
	}
	n.log = NewLogStore(n.logDB)
	snaps, err := openSnapshots(n.opts.FS, filepath.Join(n.dir, snapshotsDir), n.opts.SnapshotsKept)
	if err != nil {
		return err
	}
	n.snapshots = snaps
	if n.state, err = openState(n.opts.FS, n.dir, n.opts.Store, snaps, n.fail, n.opts.OpenStore); err != nil {
		return err
	}
	// What the operator says in peers.json goes before what the member has lost.
	lost := settle(n.log, n.state)
	if lost != nil && !errors.Is(lost, errLost) {
		return lost
	}
	trans := n.newTransport()
	err = guarded(n.fail, func() error { // the state machine ends the goroutine that meets an error
		recovered, err := n.recover(trans)
		switch {
		case err != nil:
			return err
		case recovered:
			return settle(n.log, n.state)
		case lost != nil:
			return lost
		}
		return n.bootstrap(trans)
	})
	return errors.Join(err, trans.Close())
}

// newTransport returns a transport of raft over the member's network.
func (n *Node) newTransport() transport {
	return transport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streamLayer{n.network, make(chan struct{})}, MaxPool: transportConns, Timeout: transportTimeout,
		Logger: n.config.Logger,
	})}
}

// startRaft starts raft on the stores.
func (n *Node) startRaft() error {
	var fsm raft.FSM = n.state
	if n.opts.wrapFSM != nil {
		fsm = n.opts.wrapFSM(n.state)
	}
	logs, stable := guard(n.log, n.failLog)
	trans := n.newTransport()
	err := guarded(n.fail, func() error {
		r, err := raft.NewRaft(n.config, fsm, logs, stable, n.snapshots, trans)
		if err == nil {
			n.raftNow.Store(r)
		}
		return err
	})
	if err != nil {
		if isDamage(n.Err()) {
			err = errDamagedLog
		}
		return errors.Join(n.Err(), err, trans.Close())
	}
	if err := n.Err(); err != nil {
		return errors.Join(err, n.raft().Shutdown().Error()) // fail may not have found it
	}
	return nil
}

// raft returns raft as it runs now.
func (n *Node) raft() *raft.Raft { return n.raftNow.Load() }

// restartRaft starts raft again on the same stores, once raft no longer knows how its log ends. Raft
// v1.8.0 forgets to note it when it installs a snapshot on a member whose own log, without being
// committed, reached further (hashicorp/raft issue 697): the log on disk is empty then, but raft answers
// the leader by the old end, and gets the same snapshot again and again.
func (n *Node) restartRaft() error {
	n.restartMu.Lock()
	defer n.restartMu.Unlock()
	if n.usable() != nil {
		return nil
	}
	if err := n.raft().Shutdown().Error(); err != nil {
		return err
	}
	if err := settle(n.log, n.state); err != nil {
		return err
	}
	return n.startRaft()
}

// lostEnd reports whether raft takes its log for longer than it is on disk, and for how long it
// takes it. It can be so for a moment while raft cuts the log off.
func (n *Node) lostEnd() (raftsEnd uint64, lost bool) {
	raftsEnd = n.raft().LastIndex()
	end, err := n.log.LastIndex()
	if err != nil {
		return raftsEnd, false
	}
	if metas, err := n.snapshots.List(); err == nil && len(metas) > 0 {
		end = max(end, metas[0].Index)
	}
	return raftsEnd, raftsEnd > end
}

// bootstrap makes a new group with this member alone, if the options say so. The group's name is
// written last. After a crash in between, the next Open goes on, with Bootstrap or without: a log
// without a group can come from nothing else, since others only write to this log after they
// have told their group.
func (n *Node) bootstrap(trans raft.Transport) error {
	begun, err := raft.HasExistingState(n.log, n.log, n.snapshots)
	if err != nil {
		return err
	}
	if n.opts.Bootstrap && !begun {
		err := raft.BootstrapCluster(n.config, n.log, n.log, n.snapshots, trans, raft.Configuration{Servers: []raft.Server{
			{Suffrage: raft.Voter, ID: n.server, Address: trans.LocalAddr()},
		}})
		if err != nil {
			return err
		}
		begun = true
	}
	if begun && n.id.Group == "" {
		return n.changeIdentity(func(i *identity) { i.Group, i.Joined = randomName(), true })
	}
	return nil
}

// adopt notes the group's name for good.
func (n *Node) adopt(group string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.id.Group == group {
		return nil
	}
	if n.id.Group != "" {
		return fmt.Errorf("%w: this one is of %s, the other of %s", ErrOtherGroup, n.id.Group, group)
	}
	id := n.id
	id.Group = group
	if err := storeIdentity(n.opts.FS, n.dir, id); err != nil {
		return err
	}
	n.id = id
	return nil
}

// changeIdentity writes MEMBER again if fn changes something.
func (n *Node) changeIdentity(fn func(*identity)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.id
	fn(&id)
	if id.Group == n.id.Group && id.Joined == n.id.Joined && id.Renewing == n.id.Renewing {
		return nil
	}
	if err := storeIdentity(n.opts.FS, n.dir, id); err != nil {
		return err
	}
	n.id = id
	return nil
}

// group returns the group's name, "" before the member has one.
func (n *Node) group() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id.Group
}

// fail marks the member as failed and begins to stop it. The others elect another leader. It is
// called on goroutines of raft, and must not wait for raft.
func (n *Node) fail(err error) {
	n.failedOnce.Do(func() {
		n.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		close(n.failed)
		n.stopOnce.Do(func() { close(n.stopping) })
		go n.stopRaft()
	})
}

// Failed is closed when an error of the disk has stopped the member. Err has the error. The member
// takes part no more, and all calls but those of Local's reader fail.
func (n *Node) Failed() <-chan struct{} { return n.failed }

// Err returns the error that has stopped the member, or nil. It wraps ErrFailed and the cause.
func (n *Node) Err() error {
	select {
	case <-n.failed:
		return n.failure
	default:
		return nil
	}
}

// usable returns why the member takes no calls any more, or nil.
func (n *Node) usable() error {
	if err := n.Err(); err != nil {
		return err
	}
	select {
	case <-n.stopping:
		return ErrClosed
	default:
		return nil
	}
}

// begin notes a call, which Close waits for until done is called.
func (n *Node) begin() (done func(), err error) {
	if err := n.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	n.calls.Add(1)
	return n.calls.Done, nil
}

// stopRaft stops raft and all connections.
func (n *Node) stopRaft() {
	n.raftOnce.Do(func() {
		n.restartMu.Lock() // a restart ends first, or does not begin
		defer n.restartMu.Unlock()
		if r := n.raft(); r != nil {
			stopped := r.Shutdown()
			n.network.close() // so that raft waits for no answer
			_ = stopped.Error()
		}
		close(n.stopped)
	})
	<-n.stopped
}

// Close stops the member and closes its stores. Writes that are under way get a few seconds to end,
// reads as long as they take; new calls get ErrClosed. A leader that closes leaves the
// group without one for an election: call TransferLeadership before to avoid that. Close returns the
// errors of closing the stores, and not that of a member that had failed before.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stopOnce.Do(func() { close(n.stopping) })
	done := make(chan struct{})
	go func() {
		n.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-n.failed:
	case <-time.After(closeGrace):
	}
	n.stopRaft()
	n.cancel()
	<-done
	return n.release()
}

// release closes what Open has opened.
func (n *Node) release() error {
	n.cancel()
	if n.network != nil {
		n.network.close()
		n.network.wait()
	}
	n.wg.Wait()
	var errs []error
	if n.state != nil {
		errs = append(errs, n.state.Close())
	}
	if n.logDB != nil {
		errs = append(errs, n.logDB.Close())
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	return errors.Join(errs...)
}

// hello is what this member says in greetings.
func (n *Node) hello() hello {
	n.mu.Lock()
	defer n.mu.Unlock()
	return hello{Group: n.id.Group, From: n.server}
}

// welcome checks the greeting of another member.
func (n *Node) welcome(kind byte, h hello) (code byte, why string) {
	if h.To != "" && h.To != n.server {
		return codeOther, fmt.Sprintf("member %q (%s) lives here, not %s", n.opts.ID, n.server, h.To)
	}
	group := n.group()
	switch {
	case h.Group != "" && group != "" && h.Group != group:
		return codeOtherGroup, fmt.Sprintf("%q is of group %s, the caller of %s", n.opts.ID, group, h.Group)
	case kind == kindCalls:
		return codeWelcome, ""
	case h.Group == "" || h.To == "":
		return codeOther, "the caller has no group"
	case group == "":
		// The leader writes to a member that it has just taken in, before that has the answer. It
		// knows the directory's random name from the member's own request, so it is the right one.
		if err := n.adopt(h.Group); err != nil {
			return codeOther, err.Error()
		}
	}
	return codeWelcome, ""
}

// Stats tells how a member is doing.
type Stats struct {
	State   string // Leader, Follower, Candidate or Shutdown
	Leader  string // the leader's id, "" when none is known
	Term    uint64
	Last    uint64 // index of the last entry in this member's log
	Commit  uint64 // index up to which this member knows that entries are committed
	Applied uint64 // index up to which this member's state has all commands; Commit once it has caught up
	Voters  int    // members with a vote
	Members int
	// Contact is when this member last heard of a leader; zero: never, or it leads.
	Contact time.Time
}

// Stats returns how this member is doing.
func (n *Node) Stats() Stats {
	s := Stats{
		State: n.raft().State().String(), Term: n.raft().CurrentTerm(), Last: n.raft().LastIndex(),
		Commit: n.raft().CommitIndex(), Applied: n.applied(),
	}
	_, id := n.leader()
	s.Leader = memberID(id)
	if n.raft().State() != raft.Leader {
		s.Contact = n.raft().LastContact()
	}
	for _, m := range n.raft().GetConfiguration().Configuration().Servers {
		s.Members++
		if m.Suffrage == raft.Voter {
			s.Voters++
		}
	}
	return s
}

// View calls fn with the store that holds this member's state, for its metrics, checks or a
// checkpoint. A snapshot from the leader replaces the store; it waits until fn has returned.
// fn must not write to the store, nor keep or close it. Its last entries, with keys that begin
// with 32 bytes 0xff, are the group's own.
func (n *Node) View(fn func(*shale.DB) error) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	return n.state.withDB(fn)
}

// Checkpoint makes a copy of this member's state in dir, a new directory on the same file system,
// which shale.Open opens. Tables are hard links, so it costs little time and room.
func (n *Node) Checkpoint(dir string) error {
	return n.View(func(db *shale.DB) error { return db.Checkpoint(dir) })
}

// Snapshot makes a snapshot now, and lets raft cut its log. Raft does so by itself when
// SnapshotThreshold entries have come since the last one. Without a new entry it does nothing.
func (n *Node) Snapshot(ctx context.Context) error {
	done, err := n.begin()
	if err != nil {
		return err
	}
	defer done()
	err = n.await(ctx, func() error { return n.raft().Snapshot().Error() })
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// await runs a call of raft that knows no context, until it or ctx ends or raft stops.
func (n *Node) await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stopped:
		return n.usable()
	}
}
