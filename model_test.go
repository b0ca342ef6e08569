package shale

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A modelState is what a store should hold: entries in key order. States are
// copied, never changed, once somebody else has one.
type modelState []modelEntry

type modelEntry struct{ key, value string }

// find returns the place of key and whether it is there.
func (s modelState) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s, key, func(e modelEntry, k string) int { return cmp.Compare(e.key, k) })
}

// with returns the state after ops.
func (s modelState) with(ops []Op) modelState {
	s = slices.Clone(s)
	for _, op := range ops {
		i, there := s.find(string(op.Key))
		switch {
		case op.Kind == OpDelete && there:
			s = slices.Delete(s, i, i+1)
		case op.Kind == OpPut && there:
			s[i].value = string(op.Value)
		case op.Kind == OpPut:
			s = slices.Insert(s, i, modelEntry{string(op.Key), string(op.Value)})
		}
	}
	return s
}

// within returns the entries that r selects, in key order.
func (s modelState) within(r Range) modelState {
	from := sort.Search(len(s), func(i int) bool { return s[i].key >= string(r.Lower) })
	s = s[from:]
	if r.Upper != nil {
		s = s[:sort.Search(len(s), func(i int) bool { return s[i].key >= string(r.Upper) })]
	}
	return s
}

// scan returns what Scan yields for r.
func (s modelState) scan(r Range) modelState {
	s = slices.Clone(s.within(r))
	if r.Reverse {
		slices.Reverse(s)
	}
	if r.Limit > 0 && len(s) > r.Limit {
		s = s[:r.Limit]
	}
	if r.KeysOnly {
		for i := range s {
			s[i].value = ""
		}
	}
	return s
}

// same reports the first difference.
func (s modelState) same(got modelState) error {
	for i := range min(len(s), len(got)) {
		if s[i] != got[i] {
			return fmt.Errorf("entry %d is %q = %.60q, want %q = %.60q", i, got[i].key, got[i].value, s[i].key, s[i].value)
		}
	}
	if len(s) != len(got) {
		more, what := s, "missing"
		if len(got) > len(s) {
			more, what = got, "too many"
		}
		e := more[min(len(s), len(got))]
		return fmt.Errorf("%d entries, want %d; the first %s is %q = %.60q", len(got), len(s), what, e.key, e.value)
	}
	return nil
}

// readAll reads all that r selects.
func readAll(r Reader, rng Range) (modelState, error) {
	var got modelState
	for e, err := range r.Scan(rng) {
		if err != nil {
			return got, err
		}
		if rng.KeysOnly != (e.Value == nil) {
			return got, fmt.Errorf("value of %q is %v with KeysOnly %v", e.Key, e.Value, rng.KeysOnly)
		}
		got = append(got, modelEntry{string(e.Key), string(e.Value)})
	}
	return got, nil
}

// A model is what a store should hold, and what a crash may leave of it.
type model struct {
	now modelState
	// safe is the state after the last commit that is durable, later the
	// commits since.
	safe  modelState
	later [][]Op
}

// commit adds a commit.
func (m *model) commit(ops []Op) {
	m.now = m.now.with(ops)
	m.later = append(m.later, ops)
}

// sync makes all commits safe.
func (m *model) sync() { m.safe, m.later = m.now, nil }

// survived finds out which commits a crash has left: got must be the state
// after one of them. The model goes on from there.
func (m *model) survived(got modelState) error {
	s := m.safe
	for i := 0; ; i++ {
		if s.same(got) == nil {
			m.now = s
			m.sync()
			return nil
		}
		if i == len(m.later) {
			break
		}
		s = s.with(m.later[i])
	}
	return fmt.Errorf("what the crash left is the state after none of the %d unsynced commits; against the last synced one: %w; against the last: %w",
		len(m.later), m.safe.same(got), m.now.same(got))
}

// A modelCursor is what an Iterator should do: it stands on entry pos; -1 is
// before the first and len after the last.
type modelCursor struct {
	entries modelState
	pos     int
}

func (c *modelCursor) valid() bool { return c.pos >= 0 && c.pos < len(c.entries) }

// move does what the method of that name does.
func (c *modelCursor) move(how, key string) bool {
	n := len(c.entries)
	switch how {
	case "First":
		c.pos = 0
	case "Last":
		c.pos = n - 1
	case "SeekGE":
		c.pos, _ = c.entries.find(key)
	case "SeekLT":
		c.pos, _ = c.entries.find(key)
		c.pos--
	case "Next":
		c.pos = min(c.pos+1, n)
	case "Prev":
		c.pos = max(c.pos-1, -1)
	}
	return c.valid()
}

// moveIterator calls the method of that name.
func moveIterator(it *Iterator, how, key string) bool {
	switch how {
	case "First":
		return it.First()
	case "Last":
		return it.Last()
	case "SeekGE":
		return it.SeekGE([]byte(key))
	case "SeekLT":
		return it.SeekLT([]byte(key))
	case "Next":
		return it.Next()
	}
	return it.Prev()
}

// modelKeys are the keys that the model test uses: short ones that are
// prefixes of each other, with the bytes at both ends of the alphabet, and
// longer ones that have much in common.
var modelKeys = makeModelKeys()

func makeModelKeys() []string {
	keys := []string{""}
	for _, a := range []string{"\x00", "a", "b", "\xff"} {
		for _, b := range []string{"", "\x00", "a", "\xff", "\xff\xff", "\x00\x00"} {
			keys = append(keys, a+b, a+b+"z")
		}
	}
	for i := range 160 {
		keys = append(keys, fmt.Sprintf("user%08d", i*7))
	}
	for i := range 60 {
		keys = append(keys, strings.Repeat("long", 20)+fmt.Sprint(i))
	}
	for i := range 40 {
		keys = append(keys, "row\x00\x00\x00\x00\x00\x00"+string(rune(i)))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
