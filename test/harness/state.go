package harness

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/shaledb/shale"
)

// An Entry is a key and its value, and the time at which it is over, in milliseconds; 0: never.
type Entry struct {
	Key, Value string
	Expiry     int64
}

// EntryOf returns what a put writes.
func EntryOf(op shale.Op) Entry {
	return Entry{string(op.Key), string(op.Value), expiryOf(op.ExpiresAt)}
}

// expiryOf returns a time as an Entry has it.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// A State is what a store holds at one moment: its entries in the order of keys, those that are over too: see At. The zero
// State is empty. A State never changes, so that it can be kept and compared by any goroutine.
type State struct {
	entries []Entry
	sum     uint64 // of the hashes of all entries, so that different states rarely need comparing
}

// entryHash is FNV-1a over key and value, with a byte between them that ends the key.
func entryHash(e Entry) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(e.Key) {
		h = (h ^ uint64(e.Key[i])) * 1099511628211
	}
	h = (h ^ 0x100) * 1099511628211
	for i := range len(e.Value) {
		h = (h ^ uint64(e.Value[i])) * 1099511628211
	}
	if e.Expiry != 0 {
		h = (h ^ uint64(e.Expiry)) * 1099511628211
	}
	return h
}

// StateOf returns the state with the entries, which must be in the order of keys.
func StateOf(entries []Entry) State {
	s := State{entries: entries}
	for _, e := range entries {
		s.sum += entryHash(e)
	}
	return s
}

// Len returns the number of entries.
func (s State) Len() int { return len(s.entries) }

// Entries returns the entries in the order of keys. The caller must not change them.
func (s State) Entries() []Entry { return s.entries }

// Hash returns a number that is the same for equal states.
func (s State) Hash() uint64 { return s.sum }

// find returns the place of key, and whether it is there.
func (s State) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e Entry, k string) int { return cmp.Compare(e.Key, k) })
}

// Get returns the value of key, and whether it is there.
func (s State) Get(key string) (string, bool) {
	if i, ok := s.find(key); ok {
		return s.entries[i].Value, true
	}
	return "", false
}

// At returns what a reader sees of the state whose time is ms.
func (s State) At(ms int64) State {
	over := func(e Entry) bool { return e.Expiry != 0 && e.Expiry <= ms }
	if !slices.ContainsFunc(s.entries, over) {
		return s
	}
	return StateOf(slices.DeleteFunc(slices.Clone(s.entries), over))
}

// With returns the state after ops.
func (s State) With(ops ...shale.Op) State { return s.withAt(longAgo.UnixMilli(), ops...) }

// withAt is With for a reader whose time is ms.
func (s State) withAt(ms int64, ops ...shale.Op) State {
	if len(ops) == 0 {
		return s
	}
	b := s.builder()
	b.asOf = ms
	b.apply(ops...)
	return b.State
}

// A builder is a state that is changed in place. What is over at asOf deletes.
type builder struct {
	State
	asOf int64
}

func (s State) builder() *builder {
	s.entries = slices.Clone(s.entries)
	return &builder{s, longAgo.UnixMilli()}
}

// state returns a copy of what b is now.
func (b *builder) state() State { return b.builder().State }

func (b *builder) apply(ops ...shale.Op) {
	for _, op := range ops {
		if op.Kind == shale.OpDeleteRange {
			b.deleteRange(shale.Range{Lower: op.Key, Upper: op.Value})
			continue
		}
		e := EntryOf(op)
		if e.Expiry != 0 && e.Expiry <= b.asOf {
			op.Kind = shale.OpDelete
		}
		i, there := b.find(string(op.Key))
		if there {
			b.sum -= entryHash(b.entries[i])
		}
		switch {
		case op.Kind == shale.OpDelete && there:
			b.entries = slices.Delete(b.entries, i, i+1)
		case op.Kind == shale.OpDelete:
		case there:
			b.entries[i] = e
		default:
			b.entries = slices.Insert(b.entries, i, e)
		}
		if op.Kind == shale.OpPut {
			b.sum += entryHash(e)
		}
	}
}

func (b *builder) deleteRange(r shale.Range) {
	part := b.Within(r)
	for _, e := range part {
		b.sum -= entryHash(e)
	}
	if len(part) > 0 {
		i, _ := b.find(part[0].Key)
		b.entries = slices.Delete(b.entries, i, i+len(part))
	}
}

// Without returns the state without the keys of another.
func Without(s, other State) State {
	return StateOf(slices.DeleteFunc(slices.Clone(s.entries), func(e Entry) bool {
		_, is := other.find(e.Key)
		return is
	}))
}

// Within returns the entries between the bounds of r, in the order of keys.
func (s State) Within(r shale.Range) []Entry {
	from := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].Key >= string(r.Lower) })
	part := s.entries[from:]
	if r.Upper != nil {
		part = part[:sort.Search(len(part), func(i int) bool { return part[i].Key >= string(r.Upper) })]
	}
	return part
}

// Equal reports whether two states have the same entries.
func (s State) Equal(t State) bool {
	return s.sum == t.sum && slices.Equal(s.entries, t.entries)
}

// Diff returns nil if got is s, and otherwise an error with the first difference.
func (s State) Diff(got State) error {
	want, is := s.entries, got.entries
	for i := range min(len(want), len(is)) {
		if want[i] != is[i] {
			return fmt.Errorf("entry %d is %q = %.60q until %d, want %q = %.60q until %d", i, is[i].Key, is[i].Value, is[i].Expiry, want[i].Key, want[i].Value, want[i].Expiry)
		}
	}
	if len(want) == len(is) {
		return nil
	}
	more, what := want, "missing"
	if len(is) > len(want) {
		more, what = is, "too many"
	}
	e := more[min(len(want), len(is))]
	return fmt.Errorf("%d entries, want %d; the first %s is %q = %.60q until %d", len(is), len(want), what, e.Key, e.Value, e.Expiry)
}

// Read returns all that r holds. It reads r by Scan, which must agree with Get for some of the keys.
func Read(r shale.Reader) (State, error) {
	s, err := ReadRange(r, shale.Range{})
	if err != nil {
		return State{}, err
	}
	got := s.entries
	for i := 0; i < len(got); i += max(1, len(got)/8) {
		if v, err := r.Get([]byte(got[i].Key)); err != nil || string(v) != got[i].Value {
			return State{}, fmt.Errorf("Get(%q) = %.40q, %w; Scan has %.40q", got[i].Key, v, err, got[i].Value)
		}
		if at, err := r.ExpiresAt([]byte(got[i].Key)); err != nil || expiryOf(at) != got[i].Expiry {
			return State{}, fmt.Errorf("ExpiresAt(%q) = %v, %w; Scan has %d", got[i].Key, at, err, got[i].Expiry)
		}
	}
	return s, nil
}

// ReadRange returns what r holds within the bounds, by one Scan.
func ReadRange(r shale.Reader, bounds shale.Range) (State, error) {
	var got []Entry
	for e, err := range r.Scan(bounds) {
		if err != nil {
			return State{}, fmt.Errorf("Scan: %w", err)
		}
		got = append(got, Entry{string(e.Key), string(e.Value), expiryOf(e.ExpiresAt)})
	}
	if bounds.Reverse {
		slices.Reverse(got)
	}
	return StateOf(got), nil
}
