package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// Options of Open. ID is needed, all else has a default.
type Options struct {
	// ID names the member within its group, for good: 1 to 64 letters, digits, ".",
	// "_" and "-". A directory keeps the id that it was opened with first.
	ID string

	// Bootstrap makes a new group with this member alone. It is for the first member. A directory that has a group
	// stays in it, so a program may always set it. A new directory asks the members at Join first, and joins their
	// group if they have one. It also waits for some seconds whether a group looks for a member of this id: that member
	// has lost its disk then, and Open fails with ErrIDTaken. Open fails as well if somebody at Join takes connections
	// and does not answer, since there may be a group.
	Bootstrap bool

	// Join has the addresses of members of a group that this member shall join, any of
	// them. A new directory asks them until the leader has taken it in; Open does not
	// wait for that. Later they only matter when the member's own address has changed.
	// A member with neither Bootstrap nor Join waits for AddVoter or AddLearner.
	Join []string

	// Learner keeps a member that joins by Join from asking for a vote. It gets all
	// writes and serves reads, and counts neither for majorities nor for elections.
	Learner bool

	// Forward sends the writes of a member that does not lead to the leader. Without
	// it they return a NotLeaderError.
	Forward bool

	// Listen is the TCP address for other members, default "127.0.0.1:0". A fixed port
	// is better: others look for the member where it was last.
	Listen string

	// Advertise is the address under which others reach Listen, default that of the
	// listener. It is needed when Listen names no single host, such as ":7000".
	Advertise string

	// TLS secures all connections between members: as servers they use it as it is,
	// as clients with the host's name in ServerName if that is empty. For members that
	// shall only talk to each other, set Certificates, RootCAs, ClientCAs and ClientAuth.
	TLS *tls.Config

	// Store has the options of the store with the state: memory, filters, compression.
	// FS and Durability are set by Open, for the log is what makes writes durable.
	Store *shale.Options

	// OpenStore opens the store of the state instead of shale.Open, for example one that is backed
	// up to a bucket. close closes it. It is called again for another directory when a snapshot
	// replaces the state, and the store before that is closed later.
	OpenStore func(dir string, o *shale.Options) (db *shale.DB, close func() error, err error)

	// FS is the file system, default the operating system's.
	FS vfs.FS

	// Raft changes settings of hashicorp/raft, such as timeouts and when snapshots are
	// made. Open checks the result. Without a Logger or LogOutput, raft's log is dropped.
	Raft func(*raft.Config)

	// SnapshotRate limits with how many bytes a second a leader sends the files of a snapshot
	// to each member that needs one, so that they leave some of the network and the disk to
	// others. 0: as fast as it goes, else at least 64 KiB.
	SnapshotRate int64

	// LogSize is how many bytes of entries may be applied since the last snapshot before the
	// member makes another one, default 256 MiB, at least 1 MiB. A quarter of it stays in the
	// log behind a snapshot, as far as raft's TrailingLogs allow. More spares members that were
	// away for a while a snapshot. On disk, the log takes up to twice as much.
	LogSize int64

	// LogSizeBehind is how many bytes of entries the leader keeps for a member that is receiving
	// a snapshot, or the log behind one, default 4 GiB, at least LogSize. It should be more than
	// what is written while a snapshot is sent: else the member needs another one, of which only
	// the files are sent that it lacks.
	LogSizeBehind int64

	// Dial opens connections to other members, default a net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// stallTimeout is the constant of this name outside of tests.
	stallTimeout time.Duration

	// foundAfter is how long a new directory listens before it founds a group.
	foundAfter time.Duration

	// About, if not nil, returns what Survey says about this member on all members, such as a version. It must return soon.
	About func() map[string]string

	// clock is the one by which this member leads.
	clock func() time.Time

	// wrapFSM lets tests delay what the state machine does.
	wrapFSM func(raft.BatchingFSM) raft.BatchingFSM
}

const (
	// defaultCommitTimeout is raft's 50 ms cut down: after a write it takes so long until
	// the followers hear, without further writes, that it is committed. Reads on them wait for that.
	defaultCommitTimeout = 10 * time.Millisecond

	// defaultMaxAppendEntries is how many entries share an fsync and a message at most. With raft's
	// 64, that many writers fill a message. One message is under way to each member.
	defaultMaxAppendEntries = 256
)

// withDefaults returns a copy that has no zero values where a default stands for them.
func (o *Options) withDefaults() *Options {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.FS = cmp.Or(c.FS, vfs.Default)
	c.LogSize = cmp.Or(c.LogSize, 256<<20)
	c.LogSizeBehind = cmp.Or(c.LogSizeBehind, max(4<<30, c.LogSize))
	c.stallTimeout = cmp.Or(c.stallTimeout, stallTimeout)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.OpenStore == nil {
		c.OpenStore = func(dir string, o *shale.Options) (*shale.DB, func() error, error) {
			db, err := shale.Open(dir, o)
			return db, db.Close, err
		}
	}
	if c.clock == nil {
		c.clock = time.Now
	}
	c.Store = cmp.Or(c.Store, new(shale.Options))
	return &c
}

// validate names the first field that makes no sense.
func (o *Options) validate() error {
	switch {
	case !validID(o.ID):
		return fmt.Errorf("Options.ID is %q: it takes 1 to 64 letters, digits, \".\", \"_\" or \"-\"", o.ID)
	case o.Bootstrap && o.Learner:
		return errors.New("Options.Learner: the first member of a group needs a vote")
	case o.SnapshotRate != 0 && o.SnapshotRate < streamPiece:
		return fmt.Errorf("Options.SnapshotRate is %d: it takes 0 or at least %d bytes a second", o.SnapshotRate, streamPiece)
	case o.LogSize < 1<<20:
		return fmt.Errorf("Options.LogSize is %d: it takes at least 1 MiB", o.LogSize)
	case o.LogSizeBehind < o.LogSize:
		return fmt.Errorf("Options.LogSizeBehind is %d: it takes at least Options.LogSize, which is %d", o.LogSizeBehind, o.LogSize)
	case o.Store.ReadOnly:
		return errors.New("Options.Store.ReadOnly: a member must be able to write")
	case o.Store.Shipping.Gate != nil || o.Store.Shipping.Clock != nil:
		return errors.New("Options.Store.Shipping: the group decides what is committed, and what time it is")
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return fmt.Errorf("Options.Listen: %w", err)
	}
	if o.Advertise != "" {
		if err := validAddress(o.Advertise); err != nil {
			return fmt.Errorf("Options.Advertise: %w", err)
		}
	}
	for _, a := range o.Join {
		if err := validAddress(a); err != nil {
			return fmt.Errorf("Options.Join: %w", err)
		}
	}
	return nil
}

// validAddress reports why others can't reach a member at address.
func validAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q names no host that others could reach", address)
	}
	if port == "" || port == "0" {
		return fmt.Errorf("%q has no port", address)
	}
	return nil
}

// validID reports whether a name can be a member's: it becomes a part of names of files and of
// objects.
func validID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// raftConfig returns raft's settings for a member. They are raft's defaults but for those
// above, and those that this package depends on and therefore checks.
func (o *Options) raftConfig(id raft.ServerID) (*raft.Config, error) {
	c := raft.DefaultConfig()
	c.LocalID = id
	c.CommitTimeout = defaultCommitTimeout
	c.MaxAppendEntries = defaultMaxAppendEntries
	c.NoSnapshotRestoreOnStart = true
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	if o.Raft != nil {
		o.Raft(c)
	}
	if c.Logger == nil && c.LogOutput == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Logger == nil { // as raft would make it; the transport shares it
		c.Logger = hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.LevelFromString(c.LogLevel), Output: c.LogOutput})
	}
	refuse := func(field, why string) (*raft.Config, error) {
		return nil, fmt.Errorf("Options.Raft: %s %s", field, why)
	}
	switch {
	case c.LocalID != id:
		return refuse("LocalID", "is set by Options.ID")
	case c.ProtocolVersion != raft.ProtocolVersionMax:
		return refuse("ProtocolVersion", fmt.Sprintf("must stay %d", raft.ProtocolVersionMax))
	case !c.NoSnapshotRestoreOnStart:
		return refuse("NoSnapshotRestoreOnStart", "must stay true: the state is a store of its own and needs no replay")
	case c.ShutdownOnRemove:
		return refuse("ShutdownOnRemove", "must stay false: a member that is removed goes on until Close")
	case c.BatchApplyCh:
		return refuse("BatchApplyCh", "must stay false: raft forgets what waits there when it stops")
	}
	if err := raft.ValidateConfig(c); err != nil {
		return nil, fmt.Errorf("Options.Raft: %w", err)
	}
	return c, nil
}
