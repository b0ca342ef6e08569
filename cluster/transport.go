package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// All connections between members go to one listener. Each begins with a greeting, which says
// what the connection is for and who talks to whom, and an answer to it:
//
//	greeting: "SHC1" | a call as in rpc.go, whose op is the kind 'r', 'c' or 'f', and whose JSON is a hello
//	answer:   as to a call
//
// After it a connection of kind 'r' belongs to raft's own transport, one of kind 'c' carries
// the calls of rpc.go, and one of kind 'f' the files of a snapshot (stream.go).
// The greeting costs one round trip for each connection, and connections are kept. Raft
// itself finds members by address alone: if two of them change places, it would count what one has on
// disk for the other. The greeting names whom it is meant for, so that such a connection is refused.
const (
	greetingMagic = "SHC1"
	kindRaft      = 'r'
	kindCalls     = 'c'
	kindFiles     = 'f'

	greetingTimeout = 10 * time.Second
	dialTimeout     = 2 * time.Second
	maxGreeting     = 4096
)

// errNoConnection is wrapped when nobody takes a connection at an address, as opposed to a member that takes it and is silent.
var errNoConnection = errors.New("no connection")

// A hello is the JSON of a greeting.
type hello struct {
	Group string        `json:"group,omitempty"` // the caller's group, "" before it has one
	From  raft.ServerID `json:"from"`
	To    raft.ServerID `json:"to,omitempty"` // the member that the caller looks for, "" for any
}

// A network owns the listener and all connections of a member.
//
// One listener serves all purposes, so an operator opens one port. Every connection is tied to ctx:
// when the member ends, reads and writes that wait at them return.
type network struct {
	node      *Node
	opts      *Options
	listener  net.Listener
	advertise string

	raftConns chan net.Conn // accepted for raft's transport
	wg        sync.WaitGroup

	ctx    context.Context // ends all connections
	cancel context.CancelFunc
}

// listen opens the listener. Nothing is accepted before start.
func listen(node *Node) (*network, error) {
	o := node.opts
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	n := &network{node: node, opts: o, listener: l, advertise: o.Advertise, raftConns: make(chan net.Conn)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if n.advertise == "" {
		n.advertise = l.Addr().String()
		if err := validAddress(n.advertise); err != nil {
			return nil, errors.Join(fmt.Errorf("Options.Advertise must say where others reach Options.Listen: %w", err), l.Close())
		}
	}
	return n, nil
}

// start accepts connections until close.
func (n *network) start() {
	n.wg.Go(func() {
		for {
			conn, err := n.listener.Accept()
			if err != nil {
				select {
				case <-n.ctx.Done():
					return
				case <-time.After(10 * time.Millisecond): // out of descriptors, for example
					continue
				}
			}
			n.wg.Go(func() { n.accepted(conn) })
		}
	})
}

// accepted reads the greeting of a connection and hands the connection over.
//
// The greeting has a limit of time and of size, because anybody who reaches the port can connect.
func (n *network) accepted(raw net.Conn) {
	conn := raw
	if n.opts.TLS != nil {
		conn = tls.Server(raw, n.opts.TLS)
	}
	conn = n.track(conn)
	_ = conn.SetDeadline(time.Now().Add(greetingTimeout)) // a closed connection fails below
	kind, from, err := n.answer(conn)
	if err != nil {
		_ = conn.Close() // the caller has gone, or knows why from the answer
		return
	}
	_ = conn.SetDeadline(time.Time{})
	switch kind {
	case kindCalls:
		n.node.serveCalls(conn, from)
	case kindFiles:
		n.node.receiveFiles(conn)
	case kindRaft:
		select {
		case n.raftConns <- conn:
			return
		case <-n.ctx.Done():
		}
	}
	_ = conn.Close()
}

// answer reads a greeting, checks it and answers it.
func (n *network) answer(conn net.Conn) (kind byte, from hello, err error) {
	var magic [len(greetingMagic)]byte
	if _, err := io.ReadFull(conn, magic[:]); err != nil {
		return 0, from, err
	}
	var text []byte
	if string(magic[:]) != greetingMagic {
		err = errors.New("this is the port of a shale group's members, and the greeting is not theirs")
	} else if kind, text, err = readFrame(conn, maxGreeting); err == nil {
		err = json.Unmarshal(text, &from)
	}
	if err == nil {
		err = n.node.welcome(kind, from)
	}
	return kind, from, errors.Join(err, answerCall(conn, struct{}{}, err))
}

// dial opens a connection of one kind to the member called to, or to any member if to is "".
//
// A connection counts only after the other side has accepted the greeting. So a member that is
// another one than the caller looks for is found here, and no call or entry gets to it.
func (n *network) dial(ctx context.Context, kind byte, address string, to raft.ServerID) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := n.opts.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	if n.opts.TLS != nil {
		c := n.opts.TLS
		if c.ServerName == "" {
			c = c.Clone()
			c.ServerName, _, _ = net.SplitHostPort(address)
		}
		conn = tls.Client(conn, c)
	}
	conn = n.track(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // the greeting fails at once
	h := n.node.hello()
	h.To = to
	err = greet(conn, kind, h)
	if !stop() {
		err = cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", address, err), conn.Close())
	}
	return conn, nil
}

// greet sends a greeting and reads the answer.
func greet(conn net.Conn, kind byte, h hello) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := conn.Write(appendFrame([]byte(greetingMagic), kind, text)); err != nil {
		return err
	}
	return readAnswer(conn, maxGreeting, new(struct{}))
}

// track lets close end a connection.
func (n *network) track(conn net.Conn) net.Conn {
	return trackedConn{conn, context.AfterFunc(n.ctx, func() { _ = conn.Close() })} // whoever waits at it gets the error
}

// close stops listening and ends all connections. Calls that are being served go on; wg has them.
func (n *network) close() {
	n.cancel()
	_ = n.listener.Close() // nothing was written
}

// A trackedConn is not tracked any more when it is closed.
type trackedConn struct {
	net.Conn
	untrack func() bool
}

// Close forgets the connection, so that connections that have ended take no memory until the member
// ends.
func (c trackedConn) Close() error {
	c.untrack()
	return c.Conn.Close()
}

// A streamLayer gives raft's transport its connections.
type streamLayer struct{ *network }

// Accept returns the next connection that another member has opened for raft.
func (s streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-s.raftConns:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close leaves the network to the member, which closes it.
func (s streamLayer) Close() error { return nil }

// Addr returns the address under which others find this member.
func (s streamLayer) Addr() net.Addr { return memberAddr(s.advertise) }

// Dial opens a connection to a target that a transport has made of a member's name and address.
func (s streamLayer) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	to, address, _ := strings.Cut(string(target), targetSep)
	return s.dial(ctx, kindRaft, address, raft.ServerID(to))
}

// memberAddr is the net.Addr of an advertised address, which may have a host's name.
type memberAddr string

// Network and String implement net.Addr.
func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }

// targetSep stands between name and address in a target. Neither has it.
const targetSep = "\x00"

// A transport is raft's network transport, but its connections know whom they are for, and the files of snapshots have
// arrived before raft speaks of them.
type transport struct {
	*raft.NetworkTransport
	node *Node
}

// newTransport returns the transport of a member.
func newTransport(n *Node) transport {
	t := transport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streamLayer{n.network}, MaxPool: transportConns, MaxRPCsInFlight: 1, // no pipelines
		Timeout: transportTimeout, Logger: n.config.Logger,
	}), n}
	// A member that installs a snapshot makes a state of its files before it answers. Raft waits for transportTimeout once
	// for each TimeoutScale bytes of the notice.
	t.TimeoutScale = installScale
	return t
}

// target puts a member's name and address into the one string that raft's transport passes on to
// Dial.
func target(id raft.ServerID, a raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + targetSep + string(a))
}

// AppendEntries implements raft.Transport. Heartbeats come by this way too, with no entries.
func (t transport) AppendEntries(id raft.ServerID, a raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.node.logs.load(req); err != nil {
		return err
	}
	err := t.NetworkTransport.AppendEntries(id, target(id, a), req, resp)
	if err == nil {
		t.node.trail.answered(id, req, resp)
	}
	return err
}

// errNotPlaced keeps a member that has not found its place from asking for votes.
var errNotPlaced = errors.New("the member is starting")

// connected asks again when the connection had ended. Raft's transport keeps connections to a member that has restarted
// meanwhile, and each of them would cost a candidate an election's time: the member has no vote in it, and a founder that has
// lost its disk does not hear that it is looked for. A question that is asked twice has the same answer.
func connected(ask func() error) error {
	err := ask()
	for range transportConns {
		if op := (*net.OpError)(nil); !errors.Is(err, io.EOF) && (!errors.As(err, &op) || op.Timeout() || errors.Is(err, errNoConnection)) {
			break
		}
		err = ask()
	}
	return err
}

// RequestVote implements raft.Transport. A member that is not placed yet could vote, or ask for
// votes, twice.
func (t transport) RequestVote(id raft.ServerID, a raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if !t.node.placed.Load() {
		return errNotPlaced
	}
	return connected(func() error { return t.NetworkTransport.RequestVote(id, target(id, a), req, resp) })
}

// RequestPreVote implements raft.WithPreVote, under the same condition.
func (t transport) RequestPreVote(id raft.ServerID, a raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if !t.node.placed.Load() {
		return errNotPlaced
	}
	return connected(func() error { return t.NetworkTransport.RequestPreVote(id, target(id, a), req, resp) })
}

// Consumer implements raft.Transport. Raft calls it once, when it starts. What others send comes through judgeByLog first, but
// for heartbeats, which have a way of their own.
func (t transport) Consumer() <-chan raft.RPC {
	requests := make(chan raft.RPC)
	t.node.network.wg.Go(func() {
		for {
			select {
			case rpc := <-t.NetworkTransport.Consumer():
				t.judgeByLog(rpc.Command)
				select {
				case requests <- rpc:
					continue
				case <-t.node.network.ctx.Done():
				}
			case <-t.node.network.ctx.Done():
			}
			return
		}
	})
	return requests
}

// judgeByLog makes Raft judge a candidate by its log alone, and not by whether it has a vote in this member's configuration.
//
// Raft v1.8.0 refuses a candidate that has none. But the candidate may have got its vote while this member was cut off. If
// the leader dies then, the candidate needs this member, which itself can't lead because its log is shorter: there would be no
// leader for good, although only one member is lost. That a candidate has no vote any more needs no such check: whoever has the
// entry that says so refuses it for its shorter log.
//
// A request for a vote without an ID is not checked for that. One for a pre-vote needs the ID of a voter, and Raft uses it
// for nothing else.
func (t transport) judgeByLog(request any) {
	switch req := request.(type) {
	case *raft.RequestVoteRequest:
		req.ID = nil
	case *raft.RequestPreVoteRequest:
		if s, ok := find(t.node.servers(), func(s raft.Server) bool { return s.Suffrage == raft.Voter }); ok {
			req.ID = []byte(s.ID)
		}
	}
}

// InstallSnapshot implements raft.Transport. It sends the files first, over a connection of their
// own, and then raft's message, whose content is only the notice of them.
func (t transport) InstallSnapshot(id raft.ServerID, a raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if err := t.node.sendSnapshot(id, a, req.Term, data.(*snapshotReader)); err != nil {
		return err
	}
	return t.NetworkTransport.InstallSnapshot(id, target(id, a), req, resp, data)
}

// TimeoutNow implements raft.Transport: it tells a member to begin an election, for a transfer of
// the lead.
func (t transport) TimeoutNow(id raft.ServerID, a raft.ServerAddress,
	req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, target(id, a), req, resp)
}

var (
	_ raft.StreamLayer = streamLayer{}
	_ raft.Transport   = transport{}
	_ raft.WithPreVote = transport{}
	_ raft.WithClose   = transport{}
)
