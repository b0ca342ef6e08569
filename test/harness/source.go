package harness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

// slots is how many snapshots, and how many iterators, a program may have open at once.
const slots = 4

// A Source is what the arguments of steps are drawn from. It knows which keys the program has put
// so far, but nothing of any answer, so that a program is known as a whole before it runs.
type Source struct {
	*rand.Rand
	Keys []string // from which keys are drawn
	// Marked says that each write is a batch that puts a key of its own, for programs on a disk
	// that fails: see Commit.
	Marked bool
	// Exact says that no other keys are drawn than Keys.
	Exact bool
	// Timed says that the clock jumps, so that values may expire while the program runs.
	Timed bool
	// Serial is the number of the last value. It makes values unique: sources of one store begin
	// with numbers far apart.
	Serial int64

	written []string
	known   map[string]bool
	often   string // the key of the moment, which many steps are about
	copies  int
	passed  time.Duration // by which the clock has jumped
}

// NewSource returns a source of the given keys.
func NewSource(keys []string) *Source {
	return &Source{Keys: keys, written: []string{""}, known: make(map[string]bool)}
}

// Reseed makes the choices from now on those of the seed.
func (s *Source) Reseed(seed uint64) { s.Rand = rand.New(rand.NewPCG(seed, 0)) }

// Draw draws a step from the operations, each as often as its weight says.
func (s *Source) Draw(operations []Operation) Step {
	sum := 0
	for _, o := range operations {
		sum += o.Weight
	}
	at := s.IntN(sum)
	for _, o := range operations {
		if at -= o.Weight; at < 0 {
			return o.Draw(s)
		}
	}
	panic("unreachable: the weights have a sum")
}

// ShortKeys are keys that are prefixes of each other, with the bytes at both ends of the alphabet,
// and longer ones that have much in common.
var ShortKeys = shortKeys()

func shortKeys() []string {
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

// AllKeys are ShortKeys and some that are up to as long as a key can be.
var AllKeys = func() []string {
	keys := slices.Clone(ShortKeys)
	for _, n := range []int{255, 256, 1000, 5000} {
		keys = append(keys, strings.Repeat("L", n), strings.Repeat("L", n-1)+"\x00", strings.Repeat("L", n-1)+"\xff")
	}
	return append(keys, strings.Repeat("\xff", 700), strings.Repeat("\x00", 700), strings.Repeat("M", shale.MaxKeySize))
}()

// prefixRules are rules by which many of ShortKeys share prefixes, some are prefixes, and some have none.
var prefixRules = []shale.PrefixRule{{}, shale.FixedPrefix(1), shale.FixedPrefix(5), shale.FixedPrefix(10),
	shale.DelimitedPrefix('0', 2), shale.DelimitedPrefix(0, 1), shale.DelimitedPrefix(0xff, 2)}

// anyKey returns one of the keys, or one next to it.
func (s *Source) anyKey() string {
	key := s.Keys[s.IntN(len(s.Keys))]
	if s.Exact {
		return key
	}
	switch s.IntN(8) {
	case 0:
		if len(key) < shale.MaxKeySize {
			key += "\x00"
		}
	case 1:
		key = key[:s.IntN(len(key)+1)]
	}
	return key
}

// Key returns a key to ask for, mostly one that was put before.
func (s *Source) Key() string {
	if s.Exact {
		return s.anyKey()
	}
	switch s.IntN(60) {
	case 0:
		s.often = s.written[s.IntN(len(s.written))]
	case 1, 2, 3, 4, 5, 6:
		return s.often
	case 7, 8:
		if len(s.often) < shale.MaxKeySize {
			return s.often + "\x00"
		}
	}
	if s.IntN(10) < 7 {
		return s.written[s.IntN(len(s.written))]
	}
	return s.anyKey()
}

// Puts returns a key to put.
func (s *Source) Puts() string {
	key := s.Key()
	s.puts(key)
	return key
}

func (s *Source) puts(key string) {
	if !s.known[key] {
		s.known[key] = true
		s.written = append(s.written, key)
	}
}

// Value makes a value that no other write of the program has, or an empty one. Half of it is random.
func (s *Source) Value() []byte {
	s.Serial++
	if s.IntN(20) == 0 {
		return []byte{}
	}
	value := fmt.Appendf(nil, "%d.", s.Serial)
	size := []int{0, 10, 100, 300, 6000}[min(s.IntN(50)/12, 4)]
	for len(value) < size {
		if len(value)%64 < 32 {
			value = append(value, byte(s.Uint32()))
		} else {
			value = append(value, '.')
		}
	}
	return value
}

// Op returns a put or, one time in four, a deletion, and now and then one of a range.
func (s *Source) Op() shale.Op {
	if s.IntN(4) == 0 {
		if s.IntN(6) == 0 {
			return s.DeleteRange()
		}
		return shale.Op{Kind: shale.OpDelete, Key: []byte(s.Key())}
	}
	return shale.Op{Kind: shale.OpPut, Key: []byte(s.Puts()), Value: s.Value(), ExpiresAt: s.expiry()}
}

// DeleteRange returns a deletion of a range: of one key and what lies next to it, of what begins as a key does, or now and
// then of many keys, of all, or of none. It does not delete markers.
func (s *Source) DeleteRange() shale.Op {
	key := s.Key()
	r := shale.Range{Lower: []byte(key), Upper: []byte(key + "\x00")}
	switch s.IntN(100) { // most delete few keys, or little would be left to find
	case 0:
		r = s.Range()
	case 1, 2:
		r.Upper = []byte(s.Key())
	case 3, 4, 5, 6, 7, 8:
		if len(key) > 1 {
			r = shale.Prefix(key[:len(key)-1])
		}
	}
	const first, last = "marker", "marker~"
	touches := string(r.Lower) < last && (r.Upper == nil || string(r.Upper) > first)
	// Keys that all begin alike share the store with others, of which the program knows nothing.
	own := shale.Prefix(s.common())
	if string(r.Lower) < string(own.Lower) {
		r.Lower = own.Lower
	}
	if own.Upper != nil && (r.Upper == nil || string(r.Upper) > string(own.Upper)) {
		r.Upper = own.Upper
	}
	if len(r.Upper) > shale.MaxKeySize || s.Marked && touches {
		r.Lower, r.Upper = []byte(key), []byte(key)
	}
	return shale.Op{Kind: shale.OpDeleteRange, Key: r.Lower, Value: r.Upper}
}

// common returns with what all keys begin.
func (s *Source) common() string {
	common := s.Keys[0]
	for _, key := range s.Keys {
		for !strings.HasPrefix(key, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

// Write returns a batch of n operations, some with a durability of their own.
func (s *Source) Write(n int) Write {
	var w Write
	if s.Marked {
		s.Serial++
		w.Marker = fmt.Sprintf("marker%06d", s.Serial)
		w.Ops = append(w.Ops, shale.Op{Kind: shale.OpPut, Key: []byte(w.Marker), Value: []byte{}})
	}
	for range n {
		w.Ops = append(w.Ops, s.Op())
	}
	if s.IntN(3) == 0 {
		w.Own, w.Durability = true, shale.Durability(s.IntN(3))
	}
	return w
}

// ingestMarker begins the keys that mark an ingestion in a Source that is Marked.
const ingestMarker = "\x00ingest"

// Sorted returns up to n entries in the order of keys, from a small part of the keys or from anywhere.
func (s *Source) Sorted(n int) (puts []Entry) {
	var keys []string
	first := s.Key()
	for range s.IntN(n) {
		key := s.Puts()
		if s.IntN(2) == 0 && len(first) < shale.MaxKeySize-2 && !s.Exact {
			key = fmt.Sprintf("%s%02d", first, s.IntN(100))
		}
		keys = append(keys, key)
	}
	if s.Marked {
		s.Serial++
		keys = append(keys, fmt.Sprintf("%s%06d", ingestMarker, s.Serial))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if !strings.HasPrefix(key, ingestMarker) {
			s.puts(key)
		}
		puts = append(puts, Entry{Key: key, Value: string(s.Value())})
	}
	return puts
}

// Range returns bounds, which now and then select nothing.
func (s *Source) Range() shale.Range {
	var r shale.Range
	switch s.IntN(6) {
	case 0:
	case 1:
		r.Lower = []byte(s.Key())
	case 2:
		r.Upper = []byte(s.Key())
	case 3:
		key := s.Key()
		r = shale.Prefix(key[:s.IntN(len(key)+1)])
	default:
		r.Lower, r.Upper = []byte(s.Key()), []byte(s.Key())
		if s.IntN(8) > 0 && string(r.Lower) > string(r.Upper) {
			r.Lower, r.Upper = r.Upper, r.Lower
		}
	}
	r.KeysOnly = s.IntN(4) == 0
	return r
}
