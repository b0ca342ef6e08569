package resp

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Replies are the answers to the commands of a client that were not sent yet.
type Replies struct {
	Out    []byte
	RESP3  bool          // the client has asked for it
	Errors *atomic.Int64 // counts the replies that are errors; nil: nobody does

	// What strings may take beyond what is free; nil: there is no limit. If it has too little, Full is set, and Out lacks some
	// of them: it must not be sent.
	Budget *Budget
	Full   bool
	taken  int64
}

// room reports whether n more bytes may be kept.
func (r *Replies) room(n int) bool {
	need := int64(len(r.Out)+n) - freeBytes - r.taken
	if need <= 0 || r.Budget == nil {
		return true
	}
	need += freeBytes // so that not each reply asks
	if r.Full || !r.Budget.Take(need) {
		r.Full = true
		return false
	}
	r.taken += need
	return true
}

// Reset forgets the replies, which were sent, and their memory if it is much.
func (r *Replies) Reset() {
	if r.Out = r.Out[:0]; cap(r.Out) > freeBytes {
		r.Out = nil
	}
	if r.taken > 0 {
		r.Budget.Give(r.taken)
		r.taken = 0
	}
}

// OK is the reply to a command that has nothing else to say.
func (r *Replies) OK() { r.Simple("OK") }

// Simple replies with a line.
func (r *Replies) Simple(text string) { r.line('+', text) }

// Error replies with an error. Its text begins with a code for programs, such as ERR.
func (r *Replies) Error(text string) {
	if r.Errors != nil {
		r.Errors.Add(1)
	}
	r.line('-', text)
}

// SyntaxError is the error for options that the command does not have.
func (r *Replies) SyntaxError() { r.Error("ERR syntax error") }

// WrongArity is the error for a command with too many arguments, or too few.
func (r *Replies) WrongArity(name string) { r.Error(ArityText(name)) }

// line appends a line. An end of a line within it would be the end of the reply.
func (r *Replies) line(kind byte, text string) {
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	r.Out = append(append(append(r.Out, kind), text...), "\r\n"...)
}

// Integer replies with a number.
func (r *Replies) Integer(n int64) { r.number(':', n) }

// Truth replies with 1 or 0.
func (r *Replies) Truth(b bool) {
	if b {
		r.Integer(1)
	} else {
		r.Integer(0)
	}
}

// TimeLeft replies with the units that are left until at, rounded as in TTL and PTTL, or -1 if at is zero.
func (r *Replies) TimeLeft(at time.Time, unit time.Duration) {
	if at.IsZero() {
		r.Integer(-1)
		return
	}
	now := time.Now().Add(time.Millisecond - 1)                              // what is left is less than a millisecond more
	left, per := max(0, at.UnixMilli()-now.UnixMilli()), unit.Milliseconds() // as a Duration has 292 years
	r.Integer(int64((uint64(left) + uint64(per)/2) / uint64(per)))
}

func (r *Replies) number(kind byte, n int64) {
	r.Out = append(strconv.AppendInt(append(r.Out, kind), n, 10), "\r\n"...)
}

// Bulk replies with any bytes.
func (r *Replies) Bulk(b []byte) {
	if !r.room(len(b)) {
		return
	}
	r.number('$', int64(len(b)))
	r.Out = append(append(r.Out, b...), "\r\n"...)
}

// BulkString is Bulk for a string.
func (r *Replies) BulkString(s string) {
	if !r.room(len(s)) {
		return
	}
	r.number('$', int64(len(s)))
	r.Out = append(append(r.Out, s...), "\r\n"...)
}

// Array begins an array. The next n replies are its elements.
func (r *Replies) Array(n int) { r.number('*', int64(n)) }

// Map begins a map of n names and values, which follow. In RESP2 it is an array of them.
func (r *Replies) Map(n int) {
	if r.RESP3 {
		r.number('%', int64(n))
	} else {
		r.Array(2 * n)
	}
}

// Null is the reply for a value that is not there.
func (r *Replies) Null() { r.null("$-1\r\n") }

// NullArray is the reply for an array that is not there.
func (r *Replies) NullArray() { r.null("*-1\r\n") }

func (r *Replies) null(inRESP2 string) {
	if r.RESP3 {
		inRESP2 = "_\r\n"
	}
	r.Out = append(r.Out, inRESP2...)
}
