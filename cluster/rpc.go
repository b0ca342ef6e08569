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
	opWho    = 'w' // who are you, how far, and where do you know the server that I name? A whoAnswer
	opTerm   = 't' // what is your term? A number
	opIndex  = 'i' // leader, up to where must a read that begins now have seen the log? A number
	opJoin   = 'j' // leader, take me in, or note my new address. The group's name
	opVote   = 'v' // leader, I have caught up: give me a vote
	opWrite  = 'x' // leader, write this. A result
	opDigest = 'd' // I lead: what is your digest?

	maxCall      = 1 << 30                        // bytes, above shale's largest batch
	maxStranger  = 64 << 10                       // bytes of a call by a caller that does not know the group
	maxForwarded = maxCommandSize + timedSize + 1 // bytes of a command with its kind and time

	// termTimeout is how long the leader waits for a member's term. Then a round of
	// reads has failed, and another is tried.
	termTimeout = time.Second
)

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

// A joinRequest asks the leader to take a member in, or to note its new address.
type joinRequest struct {
	Server  raft.ServerID `json:"server"`
	Address string        `json:"address"`
	New     bool          `json:"new"` // not a member yet, as far as it knows
}

// A remoteError is an error that travels. What callers ask for with errors.Is and errors.As survives the journey.
type remoteError struct {
	Text   string          `json:"text"`
	Kinds  []string        `json:"kinds,omitempty"` // names in wireErrors
	Leader *NotLeaderError `json:"leader,omitempty"`
}

// wireErrors are the errors that callers ask for with errors.Is, by the names under which they
// travel. Names are part of the protocol: one that is renamed would be unknown to older members.
var wireErrors = map[string]error{
	"unknown":     ErrUnknown,
	"reserved":    ErrReservedKey,
	"closed":      ErrClosed,
	"failed":      ErrFailed,
	"id taken":    ErrIDTaken,
	"other group": ErrOtherGroup,
}

// toRemoteError returns err in the form that travels: its text, and which of wireErrors it wraps.
func toRemoteError(err error) *remoteError {
	c := &remoteError{Text: err.Error()}
	for name, e := range wireErrors {
		if errors.Is(err, e) {
			c.Kinds = append(c.Kinds, name)
		}
	}
	errors.As(err, &c.Leader)
	return c
}

// Error returns the text that the other member has sent.
func (e *remoteError) Error() string { return e.Text }

// Unwrap returns the errors that the other member's error has wrapped, for errors.Is and errors.As.
func (e *remoteError) Unwrap() (errs []error) {
	for _, k := range e.Kinds {
		errs = append(errs, wireErrors[k]) // nil, if a newer member has sent it, is passed over
	}
	if e.Leader != nil {
		errs = append(errs, e.Leader)
	}
	return errs
}

// errNotSent is wrapped when the other side can't have seen a call, or only one that may be repeated.
var errNotSent = errors.New("not sent")

// A caller keeps connections for calls to other members.
type caller struct {
	network *network

	mu   sync.Mutex // protects idle
	idle map[callee][]*callConn
}

// A callee is what kept connections are kept by. A member that restarts with another directory is
// another callee, because a greeting is for one server only.
type callee struct {
	address string
	server  raft.ServerID
	group   string // the caller's, when it calls: a greeting without it is good for who and join only
}

// A callConn is a connection for calls, used by one call at a time. While it is idle, watch reads
// from it.
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
//
// A write is never repeated: the other side may have done it before the connection died. For that
// reason the error of a write that was sent is unknown to the caller, unless it is a remoteError.
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
	c.idle[to] = l[:len(l)-1]
	return l[len(l)-1]
}

// keep keeps a connection for the next call, unless there are enough.
//
// Connections are kept in the order of a stack, so that few of them are in use.
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
	c.idle[to] = slices.DeleteFunc(c.idle[to], func(other *callConn) bool { return other == conn })
	c.mu.Unlock()
	_ = conn.Close() // it has ended
}

// wake ends watch, and reports whether the connection is alive. If not, it is closed.
//
// A read deadline in the past makes the read of watch return at once. If watch has ended for
// another reason, the other side has closed the connection.
func (c *callConn) wake() bool {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	if errors.Is(<-c.ended, os.ErrDeadlineExceeded) && c.SetReadDeadline(time.Time{}) == nil {
		return true
	}
	_ = c.Close() // it has ended
	return false
}

// exchange sends a call and reads the answer. It keeps the connection if all went well.
//
// A connection on which a call was interrupted is closed. Its answer may still come, and the next
// call would take it for its own.
func (c *caller) exchange(ctx context.Context, conn *callConn, to callee, op byte, payload []byte, answer any) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // reads and writes fail at once
	_, err := conn.Write(appendFrame(nil, op, payload))
	if err == nil {
		err = readAnswer(conn.r, maxCall, answer)
	}
	answered := err == nil || errors.As(err, new(*remoteError))
	if stop() && answered {
		c.keep(to, conn)
	} else {
		_ = conn.Close() // what is returned says more
	}
	switch {
	case answered:
		return err
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w", to.address, err)
}

// answerCall sends an answer to a call, or the error why there is none.
func answerCall(w io.Writer, answer any, err error) error {
	status := byte(0)
	if err != nil {
		status, answer = 1, toRemoteError(err)
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = w.Write(appendFrame(nil, status, text))
	}
	return err
}

// readAnswer reads what answerCall has sent: an answer of no more than most bytes, or a remoteError.
func readAnswer(r io.Reader, most uint32, answer any) error {
	status, text, err := readFrame(r, most)
	if err != nil {
		return err
	}
	remote := new(remoteError)
	if status != 0 {
		answer = remote
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("the answer can't be read: %w", err)
	}
	if status != 0 {
		return remote
	}
	return nil
}

// appendFrame appends a byte and a payload. They are sent in one write, so that they travel in one packet.
func appendFrame(dst []byte, b byte, payload []byte) []byte {
	dst = slices.Grow(dst, 5+len(payload))
	return append(binary.BigEndian.AppendUint32(append(dst, b), uint32(len(payload))), payload...)
}

// readFrame reads what appendFrame has made. A payload of more than most bytes is an error.
func readFrame(r io.Reader, most uint32) (b byte, payload []byte, err error) {
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
//
// Calls of one connection are done one after the other. A caller opens more connections for calls
// at the same time, so a slow one holds up no other.
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
			answer, err = n.called(op, payload)
		}
		if answerCall(conn, answer, err) != nil {
			return
		}
	}
}

// called does what a call asks for.
//
// Each case is short or has a limit of time, because a member that stops waits for the calls that
// it serves.
func (n *Node) called(op byte, payload []byte) (any, error) {
	if err := n.usable(); err != nil {
		return nil, err
	}
	switch op {
	case opWho:
		return decoded(payload, n.who)
	case opTerm:
		return n.raft().CurrentTerm(), nil
	case opIndex:
		// The caller gives up when its reads do. This limit is for callers that are gone.
		ctx, cancel := context.WithTimeout(n.ctx, 5*termTimeout)
		defer cancel()
		return n.indexes.await(ctx, n.indexes.join())
	case opJoin:
		return decoded(payload, func(req joinRequest) (string, error) { return n.takeIn(n.ctx, req) })
	case opVote:
		return decoded(payload, func(server raft.ServerID) (any, error) { return nil, n.promote(n.ctx, server) })
	case opDigest:
		return decoded(payload, n.answerDigest)
	case opWrite:
		// What is in the log is applied on all members or ends them, so it has to be a command that this
		// program knows. A member with a newer one may have sent another.
		if len(payload) > maxForwarded {
			return nil, fmt.Errorf("cluster: a forwarded write has %d bytes, and %d is the limit", len(payload), maxForwarded)
		}
		if _, err := decodeCommand(payload); err != nil {
			return nil, fmt.Errorf("cluster: a forwarded write: %w", err)
		}
		ctx, cancel := context.WithTimeout(n.ctx, forwardTimeout)
		defer cancel()
		return n.propose(ctx, payload)
	}
	return nil, fmt.Errorf("this member does not know the call %q: it may run an older version", op)
}

// decoded decodes what a call says, and does it.
func decoded[T, A any](payload []byte, do func(T) (A, error)) (any, error) {
	var req T
	if err := json.Unmarshal(payload, &req); err != nil {
		return nil, err
	}
	return do(req)
}
