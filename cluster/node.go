package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/txn"
	"github.com/shaledb/shale/vfs"
)

// Names in a member's directory, next to memberFile. The states are state.go's.
const (
	lockFile     = "LOCK"
	logDir       = "log"
	snapshotsDir = "snapshots"
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
	log       *LogStore // raft has it as logs
	logs      raftLog
	trail     *trail
	snapshots *snapshots
	state     *state
	lock      io.Closer
	reads     rounds    // of steps 1 to 3 of a read
	indexes   rounds    // of steps 1 and 2, on the leader
	lanes     txn.Lanes // of transactions that have lost a conflict, and try again

	ctx      context.Context // ends when the member has stopped
	cancel   context.CancelFunc
	wg       sync.WaitGroup // goroutines of this package; Close waits
	changeMu sync.Mutex     // held while the leader changes the members, one change at a time

	// How the member ends: see lifetime.go.
	failedOnce sync.Once
	failed     chan struct{} // closed after failure is set
	failure    error
	stopping   chan struct{} // closed when Close begins or the member has failed
	stopOnce   sync.Once     // for stopping
	raftOnce   sync.Once     // for stopRaft
	claimed    chan hello    // has a greeting of another group's member to one that had this id; see found
	stopped    chan struct{} // closed when raft has stopped: what it has not answered it never will
	closing    func() error  // close, once

	// Atomic: written by one goroutine each, and read by many.
	raftNow      atomic.Pointer[raft.Raft] // nil while Open has not got so far
	placed       atomic.Bool               // see takePlace
	removed      atomic.Bool               // see Stats
	differing    atomic.Pointer[[]string]  // members that this leader differs from
	ownEntryTerm atomic.Uint64             // the last term in which this leader has committed an entry

	identityMu sync.Mutex // held while MEMBER is written; held as well for changes of id

	// Protected by mu.
	mu    sync.Mutex
	id    identity
	terms map[raft.ServerID]*rounds // see confirmTerm
	calls sync.WaitGroup            // those that began before stopping was closed
}

// Open opens the member whose files are in dir, or makes a new one there. The member begins to take
// part at once: it finds the others by what its directory knows, or joins by [Options.Join]. Open
// does not wait for a leader; calls wait for it, as far as their contexts let them.
//
// A directory belongs to one running member. It may be moved to another machine, but must never be copied to become two
// members. Open returns [ErrIDTaken] if the member runs elsewhere: it asks the others, and waits for 2 s for each
// answer that does not come.
func Open(dir string, o *Options) (*Node, error) {
	o = o.withDefaults()
	n, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("cluster: open %s: %w", dir, err)
	}
	return n, nil
}

// open is Open without the wrapped error. The steps are in the order in which they depend on each
// other: lock the directory, find out whose it is, listen, open the stores, start raft, and only
// then let others in. A member asks for no votes, and takes no messages of raft, before takePlace
// has made sure that it runs only once.
func open(dir string, o *Options) (_ *Node, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		opts: o, dir: dir, terms: map[raft.ServerID]*rounds{},
		claimed: make(chan hello, 1), failed: make(chan struct{}), stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	n.closing = sync.OnceValue(n.close)
	n.differing.Store(new([]string))
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
	n.server = n.id.server()
	if n.config, err = o.raftConfig(n.server); err != nil {
		return nil, err
	}
	o.foundAfter = cmp.Or(o.foundAfter, 2*(n.config.HeartbeatTimeout+n.config.ElectionTimeout))
	if n.network, err = listen(n); err != nil {
		return nil, err
	}
	n.caller = &caller{network: n.network, idle: map[callee][]*callConn{}}
	if err := n.openStores(); err != nil {
		return nil, err
	}
	if err := n.startRaft(); err != nil {
		return nil, err
	}
	n.network.start()
	defer func() {
		if err != nil {
			n.stopRaft()
		}
	}()
	if err := n.takePlace(); err != nil {
		return nil, err
	}
	if err := n.found(); err != nil {
		return nil, err
	}
	n.wg.Go(n.maintain)
	n.wg.Go(n.lookAfterLog)
	n.wg.Go(n.watch)
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
// group if the options or the identity say so.
//
// The log decides everything else: first it is opened and checked to be this member's, then the
// state is opened, which may be replaced by a snapshot, and at last settle compares the three.
func (n *Node) openStores() error {
	o := LogStoreOptions()
	o.FS, o.Logger = n.opts.FS, n.opts.Store.Logger
	if n.id.Group != "" || n.id.Log != "" {
		o.Exist = shale.MustExist
	}
	var err error
	if n.logDB, err = shale.Open(filepath.Join(n.dir, logDir), o); err != nil {
		if isDamage(err) {
			return fmt.Errorf("%w: its log is missing or damaged: %w", ErrLost, err)
		}
		return err
	}
	n.log = NewLogStore(n.logDB)
	n.trail = newTrail(n.log, n.opts, n.config)
	n.config.TrailingLogs = raftTrailingLogs
	snaps, err := openSnapshots(n.opts.FS, filepath.Join(n.dir, snapshotsDir))
	if err != nil {
		return err
	}
	n.snapshots = snaps
	if err := n.checkLog(); err != nil {
		return err
	}
	if n.state, err = openState(n.dir, n.opts, n.log, snaps, n.fail); err != nil {
		return err
	}
	// What the operator says to Recover goes before what the member has lost.
	err = settle(n.log, n.state)
	if err != nil && (!n.id.Recovering || !errors.Is(err, ErrLost)) {
		return err
	}
	return guarded(n.fail, func() error { // the state machine ends the goroutine that meets an error
		if n.id.Recovering {
			if err := errors.Join(n.recover(), settle(n.log, n.state)); err != nil {
				return err
			}
		}
		if err := n.nameLog(); err != nil {
			return err
		}
		return n.nameBegunGroup()
	})
}

// hello is what this member says in greetings.
func (n *Node) hello() hello { return hello{Group: n.group(), From: n.server} }

// welcome checks the greeting of another member.
//
// The rules are strict because a mistake can't be undone: a member that takes entries of another
// group mixes two histories. Calls are the exception, since somebody who wants to join does not
// know the group yet; serveCalls lets such a caller ask only who this member is, and to be taken
// in.
func (n *Node) welcome(kind byte, h hello) error {
	if h.To != "" && h.To != n.server {
		if h.Group != "" && memberID(h.To) == n.opts.ID {
			select {
			case n.claimed <- h:
			default:
			}
		}
		return fmt.Errorf("member %q (%s) lives here, not %s", n.opts.ID, n.server, h.To)
	}
	group := n.group()
	switch {
	case kind != kindCalls && kind != kindRaft && kind != kindFiles:
		return fmt.Errorf("a connection of kind %q, which this member does not know", kind)
	case h.Group != "" && group != "" && h.Group != group:
		return fmt.Errorf("%w: %q is of group %s, the caller of %s", ErrOtherGroup, n.opts.ID, group, h.Group)
	case kind == kindCalls:
		return nil
	case !n.placed.Load():
		return fmt.Errorf("member %q is starting", n.opts.ID)
	case h.Group == "" || h.To == "":
		return errors.New("the caller has no group")
	case group == "":
		// The leader writes to a member that it has just taken in, before that has the answer. It
		// knows the directory's random name from the member's own request, so it is the right one.
		return n.adopt(h.Group)
	}
	return nil
}
