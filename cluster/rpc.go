package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Calls between members, over connections of kind 'c'. A connection carries one call at a time:
//
//	request: op (1 byte)     | length (4 bytes, big-endian) | JSON, or a command's bytes for opWrite
//	answer:  status (1 byte) | length (4 bytes, big-endian) | JSON, of a remoteError if status is not 0
const (
	opWho   = 'w' // who are you, and how far?
	opTerm  = 't' // what is your term?
	opIndex = 'i' // leader, up to where must a read that begins now have seen the log?
	opJoin  = 'j' // leader, take me in, or note my new address
	opVote  = 'v' // leader, I have caught up: give me a vote
	opWrite = 'x' // leader, write this

	opDigest = 'd' // I lead: what is your digest?

	maxCall      = 1 << 30            // bytes, above shale's largest batch
	maxStranger  = 64 << 10           // bytes of a call by who does not know the group
	maxForwarded = maxCommandSize + 1 // bytes of a command with its kind

	// termTimeout is how long the leader waits for a member's term. Then a round of
	// reads has failed, and another is tried.
	termTimeout = time.Second
)

// What a who call asks: also where the member knows this server.
type whoRequest struct {
	Server raft.ServerID `json:"server,omitempty"`
}

// What a who call tells.
type whoAnswer struct {
	Server  raft.ServerID `json:"server"`
	Group   string        `json:"group"`
	Address string        `json:"address"`
	Last    uint64        `json:"last"`            // index of the last entry of its log
	Applied uint64        `json:"applied"`         // how far its state is
	Known   string        `json:"known,omitempty"` // the address of the server that was asked for

	About map[string]string `json:"about,omitempty"` // of Options.About
}

type joinRequest struct {
	Server  raft.ServerID `json:"server"`
	Address string        `json:"address"`
	New     bool          `json:"new"` // not a member yet, as far as it knows
}

type joinAnswer struct {
	Group string `json:"group"`
}

type termAnswer struct {
	Term uint64 `json:"term"`
}

type indexAnswer struct {
	Index uint64 `json:"index"`
}

type writeAnswer struct {
	Inserted bool   `json:"inserted"`
	Present  []bool `json:"present,omitempty"`
}

// A remoteError is an error that travels. The sentinels that callers ask for survive the journey.
type remoteError struct {
	Text     string   `json:"text"`
	Kinds    []string `json:"kinds,omitempty"` // names in wireErrors
	LeaderID string   `json:"leaderID,omitempty"`
	Leader   string   `json:"leader,omitempty"`
}

var wireErrors = map[string]error{
	"not leader":  ErrNotLeader,
	"unknown":     ErrUnknown,
	"reserved":    ErrReservedKey,
	"closed":      ErrClosed,
	"failed":      ErrFailed,
	"id taken":    ErrIDTaken,
	"other group": ErrOtherGroup,
}

func toRemoteError(err error) *remoteError {
	c := &remoteError{Text: err.Error()}
	for name, e := range wireErrors {
		if errors.Is(err, e) {
			c.Kinds = append(c.Kinds, name)
		}
	}
	if l := (*NotLeaderError)(nil); errors.As(err, &l) {
		c.LeaderID, c.Leader = l.ID, l.Address
	}
	return c
}

func (e *remoteError) Error() string { return e.Text }

func (e *remoteError) Is(target error) bool {
	for _, k := range e.Kinds {
		if wireErrors[k] == target {
			return true
		}
	}
	return false
}

func (e *remoteError) As(target any) bool {
	l, ok := target.(**NotLeaderError)
	if !ok || !e.Is(ErrNotLeader) {
		return false
	}
	*l = &NotLeaderError{ID: e.LeaderID, Address: e.Leader}
	return true
}

// errNotSent is wrapped when the other side can't have seen a call, or only one that may be repeated.
var errNotSent = errors.New("not sent")

// A caller keeps connections for calls to other members.
type caller struct {
	network *network

	mu   sync.Mutex // protects idle
	idle map[callee][]*callConn
}

type callee struct {
	address string
	server  raft.ServerID
	group   string // the caller's, when it calls: a greeting without it is good for who and join only
}

type callConn struct {
	net.Conn
	r     *bufio.Reader
	ended chan error // gets why watch has ended
}

// maxIdle is how many connections to a member are kept. Reads need one or two, forwarded
// writes one for each that is under way.
const maxIdle = 64

// call asks the member called to at address and decodes its answer into answer. If the connection
// was an old one that has died meanwhile, a call that can be repeated is repeated once.
func (c *caller) call(ctx context.Context, address string, to raft.ServerID, op byte, req, answer any) error {
	payload, ok := req.([]byte)
	if !ok {
		var err error
		if payload, err = json.Marshal(req); err != nil {
			return err
		}
	}
	at := callee{address, to, c.network.node.hello().Group}
	for kept := true; ; kept = false {
		conn, old, err := c.connect(ctx, at, kept)
		if err != nil {
			return fmt.Errorf("%w: %w", errNotSent, err)
		}
		err = c.exchange(ctx, conn, at, op, payload, answer)
		if err == nil || !old || op == opWrite || ctx.Err() != nil || errors.As(err, new(*remoteError)) {
			return err
		}
	}
}

// connect returns a kept connection, if kept is set and there is one, or a new one.
func (c *caller) connect(ctx context.Context, to callee, kept bool) (conn *callConn, old bool, err error) {
	for kept {
		conn := c.take(to)
		if conn == nil {
			break
		}
		if conn.wake() {
			return conn, true, nil
		}
	}
	raw, err := c.network.dial(ctx, kindCalls, to.address, to.server)
	if err != nil {
		return nil, false, err
	}
	return &callConn{raw, bufio.NewReader(raw), make(chan error, 1)}, false, nil
}

// take takes a kept connection out of idle, or returns nil.
func (c *caller) take(to callee) *callConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.idle[to]
	if len(l) == 0 {
		return nil
	}
	conn := l[len(l)-1]
	if c.idle[to] = l[:len(l)-1]; len(l) == 1 {
		delete(c.idle, to)
	}
	return conn
}

// keep keeps a connection for the next call, unless there are enough.
func (c *caller) keep(to callee, conn *callConn) {
	c.mu.Lock()
	kept := len(c.idle[to]) < maxIdle
	if kept {
		c.idle[to] = append(c.idle[to], conn)
	}
	c.mu.Unlock()
	if kept {
		go c.watch(to, conn) // until wake, or the end of the connection or of the network
	} else {
		_ = conn.Close() // nothing is under way on it
	}
}

// watch waits at an idle connection, and closes it as soon as the other side has ended it: a write on it
// would have an unknown end, and its descriptor would stay.
func (c *caller) watch(to callee, conn *callConn) {
	_, err := conn.r.Peek(1)
	conn.ended <- err
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return // wake
	}
	c.mu.Lock()
	i := slices.Index(c.idle[to], conn)
	if i >= 0 {
		if c.idle[to] = slices.Delete(c.idle[to], i, i+1); len(c.idle[to]) == 0 {
			delete(c.idle, to)
		}
	}
	c.mu.Unlock()
	if i >= 0 {
		_ = conn.Close() // it has ended
	}
}

// wake ends watch, and reports whether the connection is alive. If not, it is closed.
func (c *callConn) wake() bool {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	if errors.Is(<-c.ended, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil {
		return true
	}
	_ = c.Close() // it has ended
	return false
}

// exchange sends a call and reads the answer. It keeps the connection if all went well.
func (c *caller) exchange(ctx context.Context, conn *callConn, to callee, op byte, payload []byte, answer any) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // reads and writes fail at once
	err := writeFrame(conn, op, payload)
	var status byte
	var text []byte
	if err == nil {
		status, text, err = readFrame(conn.r, maxCall)
	}
	if !stop() || err != nil {
		_ = conn.Close() // the error is told below
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", to.address, err)
		}
	} else {
		c.keep(to, conn)
	}
	if status != 0 {
		e := new(remoteError)
		if err := json.Unmarshal(text, e); err != nil {
			return fmt.Errorf("%s: the answer can't be read: %w", to.address, err)
		}
		return e
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s: the answer can't be read: %w", to.address, err)
	}
	return nil
}

// writeFrame sends a byte and a payload in one write, so that they travel in one packet.
func writeFrame(w io.Writer, b byte, payload []byte) error {
	msg := make([]byte, 5, 5+len(payload))
	msg[0] = b
	binary.BigEndian.PutUint32(msg[1:], uint32(len(payload)))
	_, err := w.Write(append(msg, payload...))
	return err
}

// readFrame reads what writeFrame has written. A payload of more than most bytes is an error.
func readFrame(r *bufio.Reader, most uint32) (b byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > most {
		return 0, nil, fmt.Errorf("a message of %d bytes, more than %d", size, most)
	}
	// A peer that only claims a size shall not cost the memory.
	payload, err = io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(payload) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return head[0], payload, err
}

// isStranger reports whether a caller does not know this member's group.
func (n *Node) isStranger(from hello) bool {
	group := n.group()
	return group == "" || from.Group != group
}

// serveCalls answers the calls of a connection, which began with a greeting, until it ends.
func (n *Node) serveCalls(conn net.Conn, from hello) {
	r := bufio.NewReader(conn)
	for {
		most := uint32(maxCall)
		if n.isStranger(from) {
			most = maxStranger
		}
		op, payload, err := readFrame(r, most)
		if err != nil {
			return
		}
		var answer any
		if op != opWho && op != opJoin && n.isStranger(from) {
			err = fmt.Errorf("%w: the caller does not name this member's group, which only members know", ErrOtherGroup)
		} else {
			answer, err = n.answerCall(op, payload)
		}
		status := byte(0)
		if err != nil {
			status, answer = 1, toRemoteError(err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return
		}
		if err := writeFrame(conn, status, text); err != nil {
			return
		}
	}
}

// answerCall does what a call asks for.
func (n *Node) answerCall(op byte, payload []byte) (any, error) {
	if err := n.usable(); err != nil {
		return nil, err
	}
	switch op {
	case opWho:
		var req whoRequest
		if err := json.Unmarshal(payload, &req); err != nil {
			return nil, err
		}
		w := n.who()
		if s, ok := find(n.servers(), func(s raft.Server) bool { return s.ID == req.Server }); ok {
			w.Known = string(s.Address)
		}
		return w, nil
	case opTerm:
		return termAnswer{n.raft().CurrentTerm()}, nil
	case opIndex:
		// The caller gives up when its reads do. This limit is for callers that are gone.
		ctx, cancel := context.WithTimeout(n.ctx, 5*termTimeout)
		defer cancel()
		index, err := n.leaderIndex(ctx)
		return indexAnswer{index}, err
	case opJoin, opVote:
		var req joinRequest
		if err := json.Unmarshal(payload, &req); err != nil {
			return nil, err
		}
		if op == opVote {
			return struct{}{}, n.promote(n.ctx, req.Server)
		}
		return n.takeIn(n.ctx, req)
	case opDigest:
		var req digestRequest
		if err := json.Unmarshal(payload, &req); err != nil {
			return nil, err
		}
		return n.answerDigest(req), nil
	case opWrite:
		// What is in the log is applied on all members or ends them, so it has to be a command that this
		// program knows. A member with a newer one may have sent another.
		if len(payload) > maxForwarded {
			return nil, fmt.Errorf("cluster: a forwarded write has %d bytes, and %d is the limit", len(payload), maxForwarded)
		}
		if _, _, err := decodeCommand(payload); err != nil {
			return nil, fmt.Errorf("cluster: a forwarded write: %w", err)
		}
		ctx, cancel := context.WithTimeout(n.ctx, forwardTimeout)
		defer cancel()
		res, err := n.propose(ctx, payload)
		return writeAnswer{res.inserted, res.present}, err
	}
	return nil, fmt.Errorf("this member does not know the call %q: it may run an older version", op)
}
