package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// This file has transactions that stay open from step to step, several at a time. Which of them fail depends on what they
// have read and what was written meanwhile, and on no option.

// A Txn is what *shale.Txn does.
type Txn interface {
	Reader
	GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	shale.Writer
	Commit() error
	Discard()
}

// drawTxn returns some actions of a few transactions, and of others meanwhile. Half of them are about neighbouring keys.
func drawTxn(s *Source) Step {
	var actions []txnAction
	var args strings.Builder
	for range 1 + s.IntN(12) {
		a := drawAction(s)
		actions = append(actions, a)
		fmt.Fprintf(&args, "%d %s %s %s %v %s %s", a.slot, a.what, Show(a.key), showRange(a.r), a.op.Kind, Show(a.op.Key), Show(a.op.Value))
		if !a.op.ExpiresAt.IsZero() {
			fmt.Fprintf(&args, " for %v", a.ttl)
		}
		args.WriteString("; ")
	}
	return Step{Name: txnName, Args: args.String(), Do: func(s *Side) string {
		var answer strings.Builder
		for _, a := range actions {
			fmt.Fprintf(&answer, "%s: %s; ", a.what, a.do(s))
		}
		return answer.String()
	}}
}

const txnName = "transaction"

// A txnAction is what is done with the transaction in a slot, or by another one. If none is there, one begins.
type txnAction struct {
	slot int
	what string
	key  []byte
	r    shale.Range
	op   shale.Op
	ttl  time.Duration // of op if that expires
	puts []Entry       // of the keys of both
	w    Write         // for its durability
}

func drawAction(s *Source) txnAction {
	whats := []string{"get", "get", "scan", "scan", "many", "write", "write", "write", "commit", "commit", "discard", "other", "other", "ingest"}
	a := txnAction{slot: s.IntN(slots), what: whats[s.IntN(len(whats))], key: []byte(s.Key()), r: s.Range(), op: s.Op(), ttl: s.TTL(), w: s.Write(1)}
	if s.IntN(2) == 0 {
		near := s.Keys[len(s.Keys)/2:]
		hot := func() []byte { return []byte(near[s.IntN(min(8, len(near)))]) }
		a.key, a.op.Key, a.r.Lower, a.r.Upper = hot(), hot(), hot(), hot()
	}
	a.r.Reverse = s.IntN(2) == 0
	if s.IntN(2) == 0 {
		a.r.Limit = s.IntN(4)
	}
	s.puts(string(a.op.Key))
	a.puts = []Entry{{Key: string(a.op.Key), Value: string(s.Value())}}
	if string(a.key) != string(a.op.Key) && a.what == "ingest" {
		s.puts(string(a.key))
		a.puts = append(a.puts, Entry{Key: string(a.key), Value: string(s.Value())})
		slices.SortFunc(a.puts, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	}
	return a
}

func (a *txnAction) do(s *Side) string {
	tx := s.txns[a.slot]
	if tx == nil {
		tx, err := s.Begin(a.what != "discard", a.w.Own, a.w.Durability)
		if err == nil {
			s.txns[a.slot] = tx
		}
		return "begun " + ErrText(err)
	}
	switch a.what {
	case "get":
		return lookUp(tx, a.key)
	case "scan":
		return scanText(tx, a.r)
	case "many":
		var answer strings.Builder
		err := tx.GetMany([][]byte{a.key, a.op.Key, a.key}, func(i int, value []byte, found bool) error {
			fmt.Fprintf(&answer, "%d %v %s, ", i, found, Show(value))
			return nil
		})
		return answer.String() + ErrText(err)
	case "write":
		return ErrText(a.writeTo(tx))
	case "other":
		return ErrText(a.writeTo(s))
	case "ingest":
		return ErrText(s.Ingest(a.puts))
	case "discard":
		tx.Discard()
		s.txns[a.slot] = nil
		return "ok"
	}
	s.txns[a.slot] = nil
	err := tx.Commit()
	_, after := tx.Get(a.key)
	return fmt.Sprintf("%s, then Get %s", ErrText(err), ErrText(after))
}

// writeTo makes the change. Only a call that says how long a value lives has a time of its own.
func (a *txnAction) writeTo(w shale.Writer) error {
	if a.op.Kind == shale.OpPut && !a.op.ExpiresAt.IsZero() {
		return w.PutTTL(a.op.Key, a.op.Value, a.ttl)
	}
	return a.op.Apply(w)
}

// discardTxns ends all transactions of a side without a word.
func (s *Side) discardTxns() {
	for i, tx := range s.txns {
		if tx != nil {
			tx.Discard()
		}
		s.txns[i] = nil
	}
}

// letGo ends a transaction.
func letGo(tx Txn) string {
	has, err := tx.Has(nil)
	tx.Discard()
	return fmt.Sprintf("Has %v %s; ", has, ErrText(err))
}

type realTxn struct {
	realReader
	tx    *shale.Txn
	w     shale.Writer
	wrote bool
}

func (r *Real) Begin(writable, own bool, d shale.Durability) (Txn, error) {
	tx, err := r.DB.Begin(writable)
	if err != nil {
		return nil, r.note(err)
	}
	if own {
		tx.SetDurability(d)
	}
	return &realTxn{realReader: realReader{r.part.of(tx), r}, tx: tx, w: r.part.writer(tx)}, nil
}

// note is Real.note for errors that are no answers.
func (t *realTxn) note(err error) error {
	if errors.Is(err, shale.ErrConflict) || errors.Is(err, shale.ErrTxnDone) || errors.Is(err, shale.ErrReadOnly) && !IsRefusal(err) {
		return err
	}
	return t.of.noteRead(err)
}

func (t *realTxn) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	return t.note(t.Reader.(interface {
		GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error
	}).GetMany(keys, fn))
}

func (t *realTxn) Get(key []byte) ([]byte, error) {
	value, err := t.Reader.Get(key)
	return value, t.note(err)
}

func (t *realTxn) Put(key, value []byte) error { return t.change(t.w.Put(key, value)) }
func (t *realTxn) Delete(key []byte) error     { return t.change(t.w.Delete(key)) }
func (t *realTxn) PutTTL(key, value []byte, ttl time.Duration) error {
	return t.change(t.w.PutTTL(key, value, ttl))
}
func (t *realTxn) Discard() { t.tx.Discard() }

func (t *realTxn) DeleteRange(lower, upper []byte) error {
	return t.change(t.w.DeleteRange(lower, upper))
}

func (t *realTxn) change(err error) error {
	t.wrote = t.wrote || err == nil
	return t.note(err)
}

func (t *realTxn) Commit() error {
	err := t.tx.Commit(context.Background())
	if errors.Is(err, shale.ErrConflict) || !t.wrote {
		return t.note(err)
	}
	return t.of.wrote(err)
}

// A modelTxn has the state at its beginning with its own writes, and what it has read of others.
type modelTxn struct {
	m               *Model
	writable, ended bool
	began           int // how many commits were changes then
	state           State
	write           Write
	keys            map[string]bool // true: it has written the key; false: it has read it
	deleted         []shale.Op      // its range deletes: keys of them that it has not written are not read
	spans           []span
}

// A span is what a scan has observed: keys from lower to upper, with that if closed is set; open: it has no end.
type span struct {
	lower, upper string
	closed, open bool
}

func (s span) has(key string) bool {
	return key >= s.lower && (s.open || key < s.upper || s.closed && key == s.upper)
}

func (m *Model) Begin(writable, own bool, d shale.Durability) (Txn, error) {
	m.txns++
	return &modelTxn{m: m, writable: writable, began: len(m.changes), state: m.Now(), keys: map[string]bool{}, write: Write{Own: own, Durability: d}}, nil
}

// changed notes the keys of a commit for the transactions that are open.
func (m *Model) changed(ops []shale.Op) {
	if m.txns == 0 {
		return
	}
	m.changes = append(m.changes, ops)
}

// end ends the transaction.
func (t *modelTxn) end() {
	if t.ended {
		return
	}
	t.ended = true
	if t.m.txns--; t.m.txns == 0 {
		t.m.changes = nil
	}
}

func (t *modelTxn) Discard() { t.end() }

func (t *modelTxn) Commit() error {
	defer t.end()
	if len(t.write.Ops) == 0 {
		return nil
	}
	for _, ops := range t.m.changes[t.began:] {
		for _, op := range ops {
			if t.hasRead(op) {
				return shale.ErrConflict
			}
		}
	}
	return t.m.Write(t.write)
}

// hasRead reports whether the transaction has read a key that op changes.
func (t *modelTxn) hasRead(op shale.Op) bool {
	if op.Kind != shale.OpDeleteRange {
		own, is := t.keys[string(op.Key)]
		return is && !own || slices.ContainsFunc(t.spans, func(s span) bool { return s.has(string(op.Key)) })
	}
	lower, upper := string(op.Key), string(op.Value)
	if op.Value != nil && lower >= upper {
		return false
	}
	for key, own := range t.keys {
		if !own && inRange([]byte(key), op) {
			return true
		}
	}
	return slices.ContainsFunc(t.spans, func(s span) bool {
		return s.has(max(s.lower, lower)) && (op.Value == nil || s.lower < upper)
	})
}

func (t *modelTxn) Put(key, value []byte) error {
	return t.do(shale.Op{Kind: shale.OpPut, Key: key, Value: value})
}

func (t *modelTxn) PutTTL(key, value []byte, ttl time.Duration) error {
	return t.do(t.m.expiring(key, value, ttl))
}

func (t *modelTxn) Delete(key []byte) error { return t.do(shale.Op{Kind: shale.OpDelete, Key: key}) }

func (t *modelTxn) DeleteRange(lower, upper []byte) error {
	return t.do(shale.Op{Kind: shale.OpDeleteRange, Key: lower, Value: upper})
}

func (t *modelTxn) do(op shale.Op) error {
	if !t.writable {
		return errRefused
	}
	if op.Kind == shale.OpDeleteRange && op.Value != nil && bytes.Compare(op.Key, op.Value) >= 0 {
		return nil // a transaction of which this is the only write has none, and never fails
	}
	t.write.Ops = append(t.write.Ops, op)
	t.state = t.state.With(op)
	if op.Kind == shale.OpDeleteRange {
		t.deleted = append(t.deleted, op)
		return nil
	}
	if own, is := t.keys[string(op.Key)]; !is || own {
		t.keys[string(op.Key)] = true
	} else {
		// It was read before it was written, and counts as read for good.
		t.spans = append(t.spans, span{string(op.Key), string(op.Key), true, false})
		t.keys[string(op.Key)] = true
	}
	return nil
}

// inRange reports whether op, which deletes a range, deletes key.
func inRange(key []byte, op shale.Op) bool {
	return bytes.Compare(key, op.Key) >= 0 && (op.Value == nil || bytes.Compare(key, op.Value) < 0)
}

// read returns what the transaction sees, after noting that it has read keys.
func (t *modelTxn) read(keys ...[]byte) modelReader {
	for _, key := range keys {
		if !t.keys[string(key)] && !slices.ContainsFunc(t.deleted, func(op shale.Op) bool { return inRange(key, op) }) {
			t.keys[string(key)] = false
		}
	}
	return t.state.reader()
}

func (t *modelTxn) Get(key []byte) ([]byte, error) {
	if t.ended {
		return nil, shale.ErrTxnDone
	}
	return t.read(key).Get(key)
}

func (t *modelTxn) AppendValue(dst, key []byte) ([]byte, error) {
	return t.read(key).AppendValue(dst, key)
}

func (t *modelTxn) ViewValue(key []byte, fn func(value []byte) error) error {
	return t.read(key).ViewValue(key, fn)
}

func (t *modelTxn) ExpiresAt(key []byte) (time.Time, error) { return t.read(key).ExpiresAt(key) }

func (t *modelTxn) Has(key []byte) (bool, error) { return t.read(key).Has(key) }

func (t *modelTxn) GetMany(keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	t.read(keys...)
	return NewModelAt(t.state, 0).GetMany(keys, fn)
}

// Scan observes all between the places where it has been.
func (t *modelTxn) Scan(r shale.Range) iter.Seq2[shale.Entry, error] {
	within := t.state.Within(r)
	s := span{lower: string(r.Lower), upper: string(r.Upper), open: r.Upper == nil}
	if n := len(within); r.Limit > 0 && r.Limit <= n {
		if r.Reverse {
			s.lower = within[n-r.Limit].Key
		} else {
			s.upper, s.closed, s.open = within[r.Limit-1].Key, true, false
		}
	}
	t.spans = append(t.spans, s)
	return t.state.reader().Scan(r)
}

func (t *modelTxn) Iterator(r shale.Range) Iterator { return t.state.reader().Iterator(r) }
