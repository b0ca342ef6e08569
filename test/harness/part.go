package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// A Part is where in a store the keys of a life are. The zero Part is the whole store.
type Part struct {
	sub    bool // by way of Sub, also if the prefix is empty
	prefix string
}

// Sub is the part that shale's Sub of prefix is. Other keys are next to it, which the life must not see or change.
func Sub(prefix string) Part { return Part{true, prefix} }

func (p Part) String() string {
	if !p.sub {
		return "all"
	}
	return fmt.Sprintf("Sub(%q)", p.prefix)
}

// of returns what a DB, a snapshot or a transaction shows of the part.
func (p Part) of(r shale.Reader) shale.Reader {
	if !p.sub {
		return r
	}
	return r.(interface {
		Sub(prefix string) *shale.Sub
	}).Sub(p.prefix)
}

// writer returns what writes to the part of a DB, a transaction or a batch.
func (p Part) writer(w shale.Writer) shale.Writer {
	if !p.sub {
		return w
	}
	if b, ok := w.(*shale.Batch); ok {
		return b.Sub(p.prefix)
	}
	return w.(interface {
		Sub(prefix string) *shale.Sub
	}).Sub(p.prefix)
}

func (p Part) getMany(db *shale.DB, keys [][]byte, fn func(i int, value []byte, found bool) error) error {
	if !p.sub {
		return db.GetMany(keys, fn)
	}
	return db.Sub(p.prefix).GetMany(keys, fn)
}

func (p Part) putIfAbsent(db *shale.DB, key, value []byte) (bool, error) {
	if !p.sub {
		return db.PutIfAbsent(key, value)
	}
	return db.Sub(p.prefix).PutIfAbsent(key, value)
}

func (p Part) putIfAbsentTTL(db *shale.DB, key, value []byte, ttl time.Duration) (bool, error) {
	if !p.sub {
		return db.PutIfAbsentTTL(key, value, ttl)
	}
	return db.Sub(p.prefix).PutIfAbsentTTL(key, value, ttl)
}

// key returns the key in the store.
func (p Part) key(key []byte) []byte {
	if p.prefix == "" {
		return key
	}
	return append([]byte(p.prefix), key...)
}

func (p Part) keys(keys [][]byte) [][]byte {
	in := make([][]byte, len(keys))
	for i, key := range keys {
		in[i] = p.key(key)
	}
	return in
}

// bounds returns the bounds of r in the store.
func (p Part) bounds(r shale.Range) shale.Range {
	if p.prefix == "" {
		return r
	}
	in := shale.Prefix(p.prefix)
	in.Lower = p.key(r.Lower)
	if r.Upper != nil {
		in.Upper = p.key(r.Upper)
	}
	return in
}

// guards are the keys next to the part, on both sides of it.
func (p Part) guards() (keys []string) {
	if p.prefix == "" {
		return nil
	}
	last := len(p.prefix) - 1
	keys = []string{"", p.prefix[:last], p.prefix[:last] + string([]byte{p.prefix[last] - 1}) + "\xff\xff\xff"}
	if end := shale.Prefix(p.prefix).Upper; end != nil {
		keys = append(keys, string(end), string(end)+"\x00", "\xff\xff\xff")
	}
	return keys
}

const guarded = "a guard"

// guard writes the guards to a new store. They are durable then.
func (p Part) guard(db *shale.DB) error {
	var b shale.Batch
	b.SetDurability(shale.SyncEach)
	for _, key := range p.guards() {
		_ = b.Put([]byte(key), []byte(guarded)) // below every limit
	}
	if b.Len() == 0 {
		return nil
	}
	return db.Write(context.Background(), &b)
}

// read returns what r, a store or a snapshot, has in the part. What is next to it must be the guards.
func (p Part) read(r shale.Reader) (State, error) {
	s, err := Read(p.of(r))
	if err != nil || !p.sub {
		return s, err
	}
	all, err := Read(r)
	if err != nil {
		return State{}, err
	}
	var within []Entry
	var others []string
	for _, e := range all.Entries() {
		if key, is := strings.CutPrefix(e.Key, p.prefix); is {
			within = append(within, Entry{key, e.Value, e.Expiry})
		} else if others = append(others, e.Key); e.Value != guarded {
			return State{}, fmt.Errorf("%q, which is next to %v, has value %.40q", e.Key, p, e.Value)
		}
	}
	want := map[string]bool{}
	for _, key := range p.guards() {
		want[key] = true
	}
	if len(others) != len(want) {
		return State{}, fmt.Errorf("next to %v there is %q, want %q", p, others, p.guards())
	}
	if err := StateOf(within).Diff(s); err != nil {
		return State{}, errors.Join(fmt.Errorf("%v shows another state than the store has under its prefix", p), err)
	}
	return s, nil
}
