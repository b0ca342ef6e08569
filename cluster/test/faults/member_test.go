//go:build unix

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
)

// memberEnv makes a test binary a member. It has a memberConfig in JSON.
const memberEnv = "SHALE_FAULTS_MEMBER"

// broken begins the lines by which a member reports that a promise does not hold.
const broken = "BROKEN: "

// exitOpen is the status of a member whose Open has failed. The disk explains it, or nothing does.
const exitOpen = 4

// A memberConfig is what a member's process is told when it begins.
type memberConfig struct {
	ID, Dir, Socket   string
	Listen, Proxy     string
	Join              []string
	Bootstrap         bool
	Learner, Forward  bool
	Timeout           time.Duration // of heartbeats and elections; 0: raft's
	SnapshotThreshold uint64        // 0: raft's
	SnapshotInterval  time.Duration
	TrailingLogs      uint64
	SmallDisk         bool
	Encrypted         bool
	MemtableSize      int64
	Fault             DiskFault
	Clock             time.Duration // that of the member is ahead by this
	Watch             string        // a prefix; see watch
}

// TestMember_Child is not a test: the other tests run it in processes of their own.
func TestMember_Child(t *testing.T) {
	text := os.Getenv(memberEnv)
	if text == "" {
		t.Skip("only for the other tests")
	}
	var c memberConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	go func() { // the parent has gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	m := &Member{config: c, disk: newDisk(c.Dir, c.SmallDisk)}
	m.disk.set(c.Fault)
	m.prefix.Store(&c.Watch)
	l, err := net.Listen("unix", c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer()
	if err := server.Register(m); err != nil {
		t.Fatal(err)
	}
	if err := m.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOpen)
	}
	go m.watch()
	server.Accept(l)
}

// A Member is what a member's process serves. The methods are those of net/rpc.
type Member struct {
	config memberConfig
	disk   *disk
	prefix atomic.Pointer[string]

	mu   sync.RWMutex // held for writing while the node is closed and opened again
	node *cluster.Node
}

// open opens the node. Another process may have the port for a moment.
func (m *Member) open() error {
	c := m.config
	o := &cluster.Options{
		ID: c.ID, Listen: c.Listen, Join: c.Join, Bootstrap: c.Bootstrap, Learner: c.Learner, Forward: c.Forward, FS: over(m.disk, c.Encrypted),
		Store: &shale.Options{MemtableSize: c.MemtableSize},
		Raft: func(r *raft.Config) {
			r.LogOutput, r.LogLevel = os.Stderr, "INFO"
			if c.Timeout > 0 {
				r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = c.Timeout, c.Timeout, c.Timeout/2
			}
			if c.SnapshotThreshold > 0 {
				r.SnapshotThreshold, r.TrailingLogs = c.SnapshotThreshold, c.TrailingLogs
				r.SnapshotInterval = c.SnapshotInterval
			}
		},
	}
	setClock(o, func() time.Time { return time.Now().Add(c.Clock) })
	o.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		return dialProxy(ctx, c.Proxy, c.ID, address)
	}
	for attempt := 0; ; attempt++ {
		n, err := cluster.Open(c.Dir, o)
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "listen" && attempt < 100 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		m.node = n
		return err
	}
}

// setClock sets the clock by which the member leads. Programs can't.
func setClock(o *cluster.Options, clock func() time.Time) {
	f := reflect.ValueOf(o).Elem().FieldByName("clock")
	reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(clock))
}

// watch looks whether the member's own state goes back while the node runs. The keys of the prefix
// have numbers that the group's order never lowers.
func (m *Member) watch() {
	var last map[string]string
	var node *cluster.Node
	var prefix string
	for began := time.Now(); ; {
		wait := 10 * time.Millisecond
		if time.Since(began) < 3*time.Second {
			wait = 200 * time.Microsecond // what is old is seen in the beginning
		}
		time.Sleep(wait)
		m.mu.RLock()
		if p := *m.prefix.Load(); node != m.node || p != prefix {
			node, prefix, last, began = m.node, p, map[string]string{}, time.Now()
		}
		if prefix != "" {
			for e, err := range node.Local().Scan(shale.Prefix(prefix)) {
				if err != nil {
					break // the disk; a node that is closed
				}
				k, v := string(e.Key), string(e.Value)
				if v < last[k] {
					fmt.Fprintf(os.Stderr, "%sthe state of member %s went back: %s was %s and is %s\n", broken, m.config.ID, k, last[k], v)
				}
				last[k] = v
			}
		}
		m.mu.RUnlock()
	}
}

// Outcomes of an operation.
const (
	done    = iota
	refused // it has certainly not happened
	unknown // it may have happened, or may happen later
)

// An Op is an operation of a client.
type Op struct {
	Kind       string // "put", "delete", "put if absent", "put ttl", "put if absent ttl", "get", "pair", "pairs", "transfer", "sum", or that of a slotInput
	Key, Value string
	Slots      [2]int // or accounts
	TTL        time.Duration
	Timeout    time.Duration
}

// An Answer is what a member says about it.
type Answer struct {
	Outcome  int
	Value    string // of a get; "" stands for an absent key. Or what a transaction has read
	Inserted bool
	Leader   string // who leads, if this member refused for that reason
	Error    string
}

// Do does an operation.
func (m *Member) Do(op Op, a *Answer) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), op.Timeout)
	defer cancel()
	key, value := []byte(op.Key), []byte(op.Value)
	var err error
	switch op.Kind {
	case "put":
		err = m.node.Put(ctx, key, value)
	case "delete":
		err = m.node.Delete(ctx, key)
	case "put if absent":
		a.Inserted, err = m.node.PutIfAbsent(ctx, key, value)
	case "put ttl":
		err = m.node.PutTTL(ctx, key, value, op.TTL)
	case "put if absent ttl":
		a.Inserted, err = m.node.PutIfAbsentTTL(ctx, key, value, op.TTL)
	case "pair": // two keys that always have the same value
		var b shale.Batch
		if err = errors.Join(b.Put([]byte(op.Key+"/a"), value), b.Put([]byte(op.Key+"/b"), value)); err == nil {
			err = m.node.Write(ctx, &b)
		}
	case "pairs":
		err = m.node.Read(ctx, func(r shale.Reader) error { return checkPairs(r, op.Key) })
	case "swap", "fill", "renew", "see", "walk":
		a.Value, err = updateSlots(ctx, m.node, op)
	case "transfer":
		err = transfer(ctx, m.node, op)
	case "sum":
		err = checkSum(ctx, m.node, op)
	case "get":
		err = m.node.Read(ctx, func(r shale.Reader) (err error) {
			a.Value, err = get(r, key)
			return err
		})
	default:
		return fmt.Errorf("no operation %q", op.Kind)
	}
	if err == nil {
		return nil
	}
	a.Outcome, a.Error = refused, err.Error()
	if errors.Is(err, cluster.ErrUnknown) {
		a.Outcome = unknown
	}
	if l := (*cluster.NotLeaderError)(nil); errors.As(err, &l) {
		a.Leader = l.ID
	}
	return nil
}

func get(r shale.Reader, key []byte) (string, error) {
	v, err := r.Get(key)
	if errors.Is(err, shale.ErrNotFound) {
		return "", nil
	}
	return string(v), err
}

// errHalf says that a batch was seen in part.
var errHalf = errors.New("half a batch is visible")

// checkPairs walks over keys that come in pairs of one batch: a walk sees one state.
func checkPairs(r shale.Reader, prefix string) error {
	var before shale.Entry
	odd := false
	for e, err := range r.Scan(shale.Prefix(prefix)) {
		if err != nil {
			return err
		}
		if odd = !odd; odd {
			before = shale.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)}
			continue
		}
		if !bytes.Equal(before.Value, e.Value) || !bytes.HasSuffix(before.Key, []byte("/a")) || !bytes.HasSuffix(e.Key, []byte("/b")) {
			fmt.Fprintf(os.Stderr, "%s%v: %q=%q, %q=%q\n", broken, errHalf, before.Key, before.Value, e.Key, e.Value)
			return errHalf
		}
	}
	if odd {
		fmt.Fprintf(os.Stderr, "%s%v: only %q\n", broken, errHalf, before.Key)
		return errHalf
	}
	return nil
}

// A Status is how a member is doing.
type Status struct {
	cluster.Stats
	Failed  string // the error that has stopped the node
	Hits    int64  // of its disk's faults
	Members []cluster.Member
}

// Status tells how the member is doing.
func (m *Member) Status(_ struct{}, s *Status) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s.Stats, s.Hits = m.node.Stats(), m.disk.hits()
	if err := m.node.Err(); err != nil {
		s.Failed = err.Error()
		return nil
	}
	s.Members, _ = m.node.Members() // it may be failing now
	return nil
}

// Fault makes the disk fail, or heals it.
func (m *Member) Fault(f DiskFault, _ *struct{}) error {
	m.disk.set(f)
	return nil
}

// Watch says which keys have numbers that never fall.
func (m *Member) Watch(prefix string, _ *struct{}) error {
	m.prefix.Store(&prefix)
	return nil
}

// Remove removes a member.
func (m *Member) Remove(id string, _ *struct{}) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return m.node.Remove(ctx, id)
}

// Transfer makes another member the leader.
func (m *Member) Transfer(id string, _ *struct{}) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return m.node.TransferLeadership(ctx, id)
}

// Snapshot makes a snapshot now.
func (m *Member) Snapshot(_ struct{}, _ *struct{}) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.node.Snapshot(context.Background())
}

// closeWithin is how long a node may take to close, whatever has failed: it waits for writes under way.
const closeWithin = time.Minute

// Reopen closes the node and opens it again, in this process.
func (m *Member) Reopen(_ struct{}, _ *struct{}) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	slow := time.AfterFunc(closeWithin, func() {
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%sClose hangs:\n%s\n", broken, buf[:runtime.Stack(buf, true)])
	})
	failed := m.node.Err()
	err := m.node.Close()
	slow.Stop()
	if err != nil && failed == nil && m.disk.hits() == 0 {
		fmt.Fprintf(os.Stderr, "%sClose: %v\n", broken, err)
	}
	if err := m.open(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOpen)
	}
	return nil
}

// A Page asks for entries of the member's own state.
type Page struct{ After string }

// Entries are some of them; none: that was all.
type Entries struct{ Keys, Values []string }

const pageEntries = 4000

// Dump returns entries in the order of their keys.
func (m *Member) Dump(p Page, e *Entries) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := shale.Range{Limit: pageEntries}
	if p.After != "" {
		r.Lower = []byte(p.After + "\x00")
	}
	for entry, err := range m.node.Local().Scan(r) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(entry.Key), strings.Repeat("\xff", 32)) {
			return fmt.Errorf("the state shows the group's own key %q", entry.Key)
		}
		e.Keys, e.Values = append(e.Keys, string(entry.Key)), append(e.Values, string(entry.Value))
	}
	return nil
}

// A Fill asks for large values, which no compression makes smaller.
type Fill struct {
	From, To int
	Size     int
	Seed     byte
}

// Fill writes them.
func (m *Member) Fill(f Fill, _ *struct{}) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r := rand.NewChaCha8([32]byte{f.Seed})
	value := make([]byte, f.Size)
	for i := f.From; i < f.To; {
		var b shale.Batch
		for ; i < f.To && b.Len() < 64; i++ {
			_, _ = r.Read(value) // it never fails
			if err := b.Put(fmt.Appendf(nil, "fill%012d", i), value); err != nil {
				return err
			}
		}
		if err := m.node.Write(context.Background(), &b); err != nil {
			return err
		}
	}
	return nil
}
