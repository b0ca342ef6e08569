package spans

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// A model has the numbers that cover each key of a small space; the last key stands for all behind it.
type model [][]base.Seq

const modelKeys = 300

func modelKey(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }

func (m model) clone() model {
	c := make(model, len(m))
	for i := range m {
		c[i] = slices.Clone(m[i])
	}
	return c
}

func (m model) cover(i int, seq base.Seq) (at base.Seq) {
	for _, s := range m[i] {
		if s <= seq {
			at = max(at, s)
		}
	}
	return at
}

// check compares all that a set says with the model, at some numbers.
func (m model) check(t *testing.T, r *rand.Rand, s *Set, last base.Seq) {
	t.Helper()
	var f, g Finder
	f.Add(s)
	g.Add(s)
	for range 3 {
		seq, above := base.Seq(r.Uint64N(uint64(last)+2)), base.Seq(r.Uint64N(uint64(last)+1))
		if r.IntN(2) == 0 {
			seq = base.MaxSeq
		}
		for _, first := range [][]byte{nil, {}} {
			if lower, yes := f.hiddenBelow(first, above, seq); yes {
				t.Fatalf("hiddenBelow(%q, %d, %d) = %q: no key is below the empty one", first, above, seq, lower)
			}
		}
		for i := range m {
			if got, again, want := s.Cover(modelKey(i), seq), f.Cover(modelKey(i), seq), m.cover(i, seq); got != want || again != want {
				t.Fatalf("Cover(%d, %d) = %d and %d, want %d", i, seq, got, again, want)
			}
			least := base.Seq(0)
			for _, n := range m[i] {
				if n > above && (least == 0 || n < least) {
					least = n
				}
			}
			if got := g.LeastAbove(modelKey(i), above); got != least {
				t.Fatalf("LeastAbove(%d, %d) = %d, want %d", i, above, got, least)
			}
			end := i
			for end < len(m) && m.cover(end, seq) > above {
				end++
			}
			upper, yes := f.Hidden(modelKey(i), above, seq)
			if yes != (end > i) || yes && end < len(m) && !bytes.Equal(upper, modelKey(end)) || yes && end == len(m) && upper != nil && bytes.Compare(upper, modelKey(end)) < 0 {
				t.Fatalf("Hidden(%d, %d, %d) = %q, %v, want up to %d", i, above, seq, upper, yes, end)
			}
			if i == 0 {
				continue // the keys below those of the model are covered by ranges without a lower bound
			}
			begin := i
			for begin > 0 && m.cover(begin-1, seq) > above {
				begin--
			}
			lower, yes := f.hiddenBelow(modelKey(i), above, seq)
			if yes != (begin < i) || yes && begin > 0 && !bytes.Equal(lower, modelKey(begin)) || yes && begin == 0 && bytes.Compare(lower, modelKey(0)) > 0 {
				t.Fatalf("hiddenBelow(%d, %d, %d) = %q, %v, want from %d", i, above, seq, lower, yes, begin)
			}
		}
	}
	s.invariants(t)
}

// invariants checks what Set says about itself.
func (s *Set) invariants(t *testing.T) {
	t.Helper()
	if s == nil {
		return
	}
	n, size := 0, int64(0)
	var before []byte
	for i, c := range s.chunks {
		least := base.MaxSeq
		if len(c.bounds) == 0 || len(c.bounds) > maxChunk {
			t.Fatalf("chunk of %d bounds", len(c.bounds))
		}
		for j, b := range c.bounds {
			if n++; (i > 0 || j > 0) && bytes.Compare(before, b.key) >= 0 {
				t.Fatalf("bound %q after %q", b.key, before)
			}
			before = b.key
			least = min(least, b.covers.newest())
			if c.newest[j] != b.covers.newest() {
				t.Fatalf("the newest number of %q is %d, not %d", b.key, c.newest[j], b.covers.newest())
			}
			size += boundBytes + int64(len(b.key))
			lists := []*cover{b.covers}
			if j == 0 {
				lists = append(lists, c.over)
			}
			for _, l := range lists {
				for ; l != nil; l = l.next {
					if l.seq > s.last || l.next != nil && (l.next.seq >= l.seq || l.len != l.next.len+1) {
						t.Fatalf("numbers of %q: %d, then %v, with %d as the last", b.key, l.seq, l.next, s.last)
					}
				}
			}
		}
		if c.least != least {
			t.Fatalf("the least number of a chunk is %d, want %d", c.least, least)
		}
	}
	if n != s.bounds || s.bytes < size {
		t.Fatalf("%d bounds and %d bytes, want %d and at least %d", s.bounds, s.bytes, n, size)
	}
}

// randomRange returns bounds, and the keys of the model that lie between them.
func randomRange(r *rand.Rand) (lower, upper []byte, from, end int) {
	from, end = r.IntN(modelKeys+1), r.IntN(modelKeys+1)
	if r.IntN(2) == 0 {
		end = from + 1 + r.IntN(3)
	}
	end = min(end, modelKeys)
	lower, upper = modelKey(from), modelKey(end)
	switch {
	case r.IntN(20) == 0:
		lower, from = nil, 0
	case from == modelKeys:
		lower = []byte("z")
	}
	if r.IntN(20) == 0 || end == modelKeys && r.IntN(2) == 0 {
		upper, end = nil, modelKeys
		if bytes.Equal(lower, []byte("z")) {
			from = end
		}
	}
	return lower, upper, from, end
}

// A set behaves as a list of numbers for each key does, at all numbers, through all changes. Sets before a change stay as
// they are.
func TestSet_Model(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for round := range 20 {
		var s *Set
		m := make(model, modelKeys)
		seq := base.Seq(0)
		var old *Set
		var oldModel model
		for step := range 300 {
			lower, upper, from, end := randomRange(r)
			if upper != nil && from >= modelKeys {
				continue // covers only keys behind those of the model
			}
			switch n := r.IntN(40); {
			case n == 0:
				var snapshots []base.Seq
				for range r.IntN(4) {
					snapshots = append(snapshots, base.Seq(r.Uint64N(uint64(seq)+1)))
				}
				slices.Sort(snapshots)
				s = s.Prune(snapshots)
				for i := range m {
					var kept []base.Seq
					for _, at := range append(slices.Clone(snapshots), base.MaxSeq) {
						if n := m.cover(i, at); n > 0 && !slices.Contains(kept, n) {
							kept = append(kept, n)
						}
					}
					m[i] = kept
				}
			case n == 1:
				upto := base.Seq(r.Uint64N(uint64(seq) + 1))
				s = s.Without(lower, upper, upto)
				for i := from; i < end; i++ {
					m[i] = slices.DeleteFunc(slices.Clone(m[i]), func(n base.Seq) bool { return n <= upto })
				}
			case n == 2:
				var o *Set
				for range r.IntN(5) {
					lower, upper, from, end := randomRange(r)
					seq++
					o = o.With(lower, upper, seq)
					for i := from; i < end; i++ {
						m[i] = append(slices.Clone(m[i]), seq)
					}
				}
				s = s.Union(o)
			default:
				seq++
				s = s.With(lower, upper, seq)
				for i := from; i < end; i++ {
					m[i] = append(slices.Clone(m[i]), seq)
				}
			}
			if step%100 == 50 {
				old, oldModel = s, m.clone()
			}
		}
		m.check(t, r, s, seq)
		oldModel.check(t, r, old, seq)
		if round%2 == 0 {
			checkFragments(t, r, s, m)
		}
		upto := base.Seq(r.Uint64N(uint64(seq) + 1))
		below := m.clone()
		for i := range below {
			below[i] = slices.DeleteFunc(below[i], func(n base.Seq) bool { return n > upto })
		}
		below.check(t, r, s.UpTo(upto), seq)
		if !s.Equal(s.UpTo(base.MaxSeq)) || s.Equal(s.With([]byte("k1"), []byte("k2"), seq+1)) || s.Equal(nil) != s.Empty() {
			t.Fatal("Equal is wrong")
		}
		key, last := modelKey(r.IntN(modelKeys)), modelKey(r.IntN(modelKeys))
		if r.IntN(4) == 0 {
			last = nil
		}
		var older, want [][]byte
		for f, ok := s.Older(key, last, upto); ok; f, ok = s.Older(f.Lower, last, upto) {
			older = append(older, f.Lower)
		}
		for f := range s.All() {
			if bytes.Compare(f.Lower, key) > 0 && (f.Oldest() <= upto || last != nil && bytes.Compare(f.Lower, last) > 0) {
				want = append(want, f.Lower)
			}
		}
		if !slices.EqualFunc(older, want, bytes.Equal) {
			t.Fatalf("Older(%s, %s, %d) gives %d fragments, want %d", key, last, upto, len(older), len(want))
		}
		if s = s.Without(nil, nil, seq); !s.Empty() {
			t.Fatal("a set without its numbers is not empty")
		}
	}
}

// checkFragments compares a walk through the fragments of a part with the model, and makes a set of them.
func checkFragments(t *testing.T, r *rand.Rand, s *Set, m model) {
	t.Helper()
	lower, upper, _, _ := randomRange(r)
	seen := make(model, len(m))
	var part *Set
	for f := range s.Overlapping(lower, upper) {
		if f.Upper != nil && bytes.Compare(f.Upper, lower) <= 0 || upper != nil && bytes.Compare(f.Lower, upper) >= 0 {
			t.Fatalf("fragment [%q, %q) of [%q, %q)", f.Lower, f.Upper, lower, upper)
		}
		part = part.Add(NewFragment(f.Lower, f.Upper, slices.Collect(f.Seqs())))
		for i := range m {
			if bytes.Compare(f.Lower, modelKey(i)) <= 0 && (f.Upper == nil || bytes.Compare(modelKey(i), f.Upper) < 0) {
				seen[i] = slices.Collect(f.Seqs())
			}
		}
	}
	for i := range m {
		if bytes.Compare(modelKey(i), lower) < 0 || upper != nil && bytes.Compare(modelKey(i), upper) >= 0 {
			continue
		}
		want := slices.Clone(m[i])
		slices.Sort(want)
		slices.Reverse(want)
		if !slices.Equal(seen[i], want) {
			t.Fatalf("fragments of key %d have %v, want %v", i, seen[i], want)
		}
		if part.Cover(modelKey(i), base.MaxSeq) != m.cover(i, base.MaxSeq) {
			t.Fatalf("a set of the fragments covers key %d at %d", i, part.Cover(modelKey(i), base.MaxSeq))
		}
	}
	part.invariants(t)
}

// Ranges that overlap in thousands take memory and time in proportion to what each of them covers, and pruned they are few.
func TestSet_Overlaps(t *testing.T) {
	const n = 20_000
	for name, bounds := range map[string]func(i int) (lower, upper int){
		"smaller and smaller": func(i int) (int, int) { return i, 4*n - i },
		"one after another":   func(i int) (int, int) { return 2 * i, 2*i + 2 },
		"shifted":             func(i int) (int, int) { return i, i + n },
	} {
		t.Run(name, func(t *testing.T) {
			var s *Set
			for i := range n / 4 {
				lower, upper := bounds(i)
				s = s.With(fmt.Appendf(nil, "%08d", lower), fmt.Appendf(nil, "%08d", upper), base.Seq(i+1))
			}
			s.invariants(t)
			// A range has two bounds, and numbers for the intervals of the chunks with its ends, and for the chunks between them.
			if most := int64(n/4) * (2*(boundBytes+8) + (2*maxChunk+n/4/maxChunk)*coverBytes); s.Bytes() > most {
				t.Errorf("%d ranges take %d bytes, more than %d", n/4, s.Bytes(), most)
			}
			p := s.Prune(nil)
			if p.Cover(fmt.Appendf(nil, "%08d", n/4), base.MaxSeq) != s.Cover(fmt.Appendf(nil, "%08d", n/4), base.MaxSeq) {
				t.Error("pruning has changed what is covered")
			}
			// One number is left for each interval.
			if most := int64(p.Len())*(boundBytes+8+coverBytes+chunkBytes/(maxChunk/2)) + chunkBytes; p.Bytes() > most {
				t.Errorf("pruned they take %d bytes, more than %d", p.Bytes(), most)
			}
		})
	}
}

// No keys, and bounds that are equal or the wrong way round, cover nothing.
func TestSet_EmptyRanges(t *testing.T) {
	var s *Set
	for _, b := range [][2][]byte{{[]byte("a"), []byte("a")}, {[]byte("b"), []byte("a")}, {nil, {}}, {{}, {}}} {
		if s = s.With(b[0], b[1], 7); !s.Empty() {
			t.Errorf("[%q, %q) covers something", b[0], b[1])
		}
	}
	if s = s.With(nil, nil, 7); s.Cover(nil, 9) != 7 || s.Cover([]byte("\xff\xff"), 9) != 7 || s.Cover(nil, 6) != 0 {
		t.Error("a range without bounds does not cover all keys")
	}
	if s = s.With([]byte("\xff"), nil, 8); s.Cover([]byte("\xff\xff"), 9) != 8 || s.Cover([]byte("\xfe"), 9) != 7 {
		t.Error("a range from ff up")
	}
}

// A lookup in a large set allocates nothing.
func TestSet_Allocations(t *testing.T) {
	var s *Set
	for i := range 10_000 {
		s = s.With(fmt.Appendf(nil, "%08d", 2*i), fmt.Appendf(nil, "%08d", 2*i+1), base.Seq(i+1))
	}
	key := []byte("00012344")
	if n := testing.AllocsPerRun(100, func() { s.Cover(key, base.MaxSeq) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Keys of all lengths that differ anywhere, as before, in and behind the 8 bytes that a search looks at first.
func TestSet_AnyKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 2))
	for range 20 {
		same := r.IntN(4) * 12
		key := func() []byte {
			k := bytes.Repeat([]byte("s"), same)
			for n := r.IntN(11); n > 0; n-- {
				k = append(k, "\x00a\xff"[r.IntN(3)])
			}
			switch r.IntN(20) {
			case 0, 1: // equal heads of the greatest kind
				k = append(k[:same], bytes.Repeat([]byte{0xff}, 7+r.IntN(4))...)
			case 2:
				k = append(bytes.Repeat([]byte("s"), r.IntN(same+1)), "rt"[r.IntN(2)])
			}
			return k
		}
		type del struct {
			lower, upper []byte
			seq          base.Seq
		}
		var s *Set
		var all []del
		for seq := range base.Seq(300) {
			d := del{key(), key(), seq + 1}
			if bytes.Compare(d.lower, d.upper) > 0 {
				d.lower, d.upper = d.upper, d.lower
			}
			if r.IntN(3) > 0 { // short ranges, so that bounds stay
				d.upper = append(bytes.Clone(d.lower), 0)
			}
			s, all = s.With(d.lower, d.upper, d.seq), append(all, d)
		}
		for range 500 {
			k, seq := key(), base.Seq(r.IntN(310))
			want := base.Seq(0)
			for _, d := range all {
				if d.seq <= seq && bytes.Compare(d.lower, k) <= 0 && bytes.Compare(k, d.upper) < 0 {
					want = d.seq
				}
			}
			if got := s.Cover(k, seq); got != want {
				t.Fatalf("key %q is covered by %d up to %d, want %d", k, got, seq, want)
			}
		}
	}
}

func BenchmarkSet_Cover(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s *Set
			for i := range n {
				s = s.With(fmt.Appendf(nil, "key%012d", 2*i), fmt.Appendf(nil, "key%012d", 2*i+1), base.Seq(i+1))
			}
			keys := make([][]byte, 1024)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key%012d", rand.IntN(2*n))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Cover(keys[i%1024], base.MaxSeq)
			}
		})
	}
}

// Ranges that come in descending order fill chunks as well as others do: else each With would copy a list as long as the set.
func TestSet_DescendingChunks(t *testing.T) {
	var s *Set
	for i := 1000; i > 0; i-- {
		s = s.With(fmt.Appendf(nil, "%04d", 2*i), fmt.Appendf(nil, "%04d", 2*i+1), base.Seq(2000-i))
	}
	if n := len(s.chunks); n > 2*s.Len()/(maxChunk/2) {
		t.Errorf("%d chunks for %d bounds", n, s.Len())
	}
}

// Parts of a set that lie behind each other become that set again, also where they touch, and they are not changed.
func TestUnion_Behind(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 9))
	for range 200 {
		var whole, joined, part *Set
		at := 0
		for range 1 + r.IntN(300) {
			lower := at + r.IntN(2) // it may touch the one before
			at = lower + 1
			var upper []byte
			if r.IntN(300) > 0 {
				upper = fmt.Appendf(nil, "%04d", at)
			}
			seq := base.Seq(1 + r.IntN(3))
			whole = whole.With(fmt.Appendf(nil, "%04d", lower), upper, seq)
			part = part.With(fmt.Appendf(nil, "%04d", lower), upper, seq)
			if r.IntN(20) == 0 || upper == nil {
				before, size := joined.UpTo(base.MaxSeq), joined.Bytes()
				next := joined.Union(part)
				if !joined.Equal(before) || joined.Bytes() != size {
					t.Fatal("Union changed its argument")
				}
				joined, part = next, nil
			}
			if upper == nil {
				break
			}
		}
		joined = joined.Union(part)
		if !joined.Equal(whole) || joined.Last() != whole.Last() {
			t.Fatalf("joined %d bounds, want %d", joined.Len(), whole.Len())
		}
		bounds, bytes := 0, int64(0)
		for i, c := range joined.chunks {
			if len(c.bounds) == 0 || len(c.bounds) > maxChunk {
				t.Fatalf("chunk %d has %d bounds", i, len(c.bounds))
			}
			bounds, bytes = bounds+len(c.bounds), bytes+c.bytes
		}
		if bounds != joined.bounds || bytes > joined.bytes {
			t.Fatalf("%d bounds and %d bytes, counted %d and %d", joined.bounds, joined.bytes, bounds, bytes)
		}
		for i := range at + 2 {
			for seq := range base.Seq(5) {
				key := fmt.Appendf(nil, "%04d", i)
				if got, want := joined.Cover(key, seq), whole.Cover(key, seq); got != want {
					t.Fatalf("Cover(%s, %d) = %d, want %d", key, seq, got, want)
				}
			}
		}
	}
}

// In 50,000 ranges within each other (15,000 under the race detector) lists of numbers are as long. They are searched, and
// not walked: by readers at an old number, by merges of old entries, and to prune next to snapshots in the middle.
func TestSet_DeepLists(t *testing.T) {
	n := 50_000
	if testenv.Race {
		n = 15_000
	}
	var s *Set
	for i := range n {
		s = s.With(fmt.Appendf(nil, "%06d", i), fmt.Appendf(nil, "%06d", 2*n-i), base.Seq(i+1))
	}
	var f Finder
	f.Add(s)
	begin := testenv.CPUTime()
	for i := range 2 * n {
		key, above := fmt.Appendf(nil, "%06d", i), base.Seq(min(i+1, 2*n-i)/2) // it is covered by twice as many, from 1 up
		if at := s.Cover(key, above); at != above {
			t.Fatalf("Cover(%s, %d) = %d", key, above, at)
		}
		if at := f.LeastAbove(key, above); at != above+1 {
			t.Fatalf("LeastAbove(%s, %d) = %d", key, above, at)
		}
	}
	for _, snapshots := range [][]base.Seq{nil, {base.Seq(n / 2)}, {base.Seq(n / 4), base.Seq(n / 2), base.Seq(n - 10)}} {
		pruned := s.Prune(snapshots)
		for i := 0; i < 2*n; i += 997 {
			key := fmt.Appendf(nil, "%06d", i)
			for _, seq := range append([]base.Seq{base.MaxSeq}, snapshots...) {
				if got, want := pruned.Cover(key, seq), s.Cover(key, seq); got != want {
					t.Errorf("Cover(%s, %d) = %d, want %d", key, seq, got, want)
				}
			}
		}
	}
	if took := testenv.CPUTime() - begin; took > 2*time.Second {
		t.Errorf("it takes %v", took)
	}
}

// Fragments that are in order become the set that they came from; others are refused.
func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 11))
	for range 200 {
		var s *Set
		for i := range r.IntN(200) {
			lower := r.IntN(modelKeys)
			upper := modelKey(lower + 1 + r.IntN(20))
			if r.IntN(100) == 0 {
				upper = nil
			}
			s = s.With(modelKey(lower), upper, base.Seq(i+1))
		}
		all := slices.Collect(s.All())
		joined, ok := Join(all)
		if !ok || !joined.Equal(s) || joined.Empty() != s.Empty() {
			t.Fatalf("%d fragments become %d bounds, want %d (%v)", len(all), joined.Len(), s.Len(), ok)
		}
		for i := range modelKeys {
			if got, want := joined.Cover(modelKey(i), base.MaxSeq), s.Cover(modelKey(i), base.MaxSeq); got != want {
				t.Fatalf("%s is covered by %d, want %d", modelKey(i), got, want)
			}
		}
		if len(all) > 1 {
			i := r.IntN(len(all) - 1)
			all[i], all[i+1] = all[i+1], all[i]
			if _, ok := Join(all); ok {
				t.Fatalf("fragments %d and %d are accepted in the wrong order", i, i+1)
			}
		}
	}
}

// Many range deletes among many are joined in linear time: to add one after the other took 20 s.
func TestUnion_ManyAmongMany(t *testing.T) {
	const n = 100_000
	part := func(first int) *Set {
		all := make([]Fragment, n)
		for i := range all {
			all[i] = NewFragment(fmt.Appendf(nil, "%08d", 4*i+first), fmt.Appendf(nil, "%08d", 4*i+first+1), []base.Seq{base.Seq(first*n + i + 1)})
		}
		s, _ := Join(all)
		return s
	}
	a, b := part(0), part(2)
	begin := testenv.CPUTime()
	both := a.Union(b)
	if took := testenv.CPUTime() - begin; took > 2*time.Second {
		t.Errorf("it takes %v", took)
	}
	for i := 0; i < 4*n; i += 997 {
		key := fmt.Appendf(nil, "%08d", i)
		if got, want := both.Cover(key, base.MaxSeq), max(a.Cover(key, base.MaxSeq), b.Cover(key, base.MaxSeq)); got != want {
			t.Errorf("Cover(%s) = %d, want %d", key, got, want)
		}
	}
	both.invariants(t)
}

// A range without keys gives the same set, and that does not change.
func TestSet_RangeWithoutKeys(t *testing.T) {
	s := (*Set)(nil).With([]byte("c"), []byte("e"), 3)
	if next := s.With([]byte("d"), []byte("d"), 7); next != s || s.Last() != 3 {
		t.Errorf("the same set: %v, and its last number is %d", next == s, s.Last())
	}
}
