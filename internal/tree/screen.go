package tree

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/keys"
)

// screenSize is how many keys a Screen works on at a time. If a run has more than mostTables tables, it
// does not pay to sort them by their tables.
const (
	screenSize = 256
	mostTables = 64
)

// A Screen asks the filters of a version about many keys, in memory that may be used again. One
// goroutine at a time uses it. It reads no file and allocates nothing.
//
// It takes the runs one after the other, newest first, and in each run the keys that no newer run may
// have. It sorts these by their tables, so that each filter is asked about all its keys at once. The
// filter of a run of one table, as in level 0, is asked about all keys, also those outside of its range.
type Screen struct {
	// Hasher is the function that the hashes of the keys are made by.
	Hasher bloom.Hasher
	// Denied, if it is set, is called when filters of level have denied n keys.
	Denied func(level, n int)
	// DeniedBy is called when the filter of t has denied a key for which Sampled is true. Both
	// are set if Denied is.
	DeniedBy func(t *Table)
	Sampled  func(i int) bool

	pending [screenSize]int32      // keys that no run so far may have
	hashOf  [screenSize]uint64     // of each pending key
	table   [screenSize]int32      // the index of the table for each pending key, or -1
	sorted  [screenSize]int32      // the pending keys that have a table in a run, by their tables
	ends    [mostTables + 1]uint16 // where the keys of each table end in sorted
	hashes  [screenSize]uint64     // of the keys that one filter is asked about
	maybe   [screenSize]bool       // the answers
	begin   int                    // the first of the keys at work
	sample  [screenSize]bool       // Sampled of these keys
}

// FirstMaybe sets first[i] to the index of the first run of v that may have keys[i], as far as filters
// in memory know, or to len(v.Runs) if no run has it. It leaves out the keys for which first[i] is
// below 0. hashes[i] is the hash of keys[i].
func (s *Screen) FirstMaybe(v *Version, keys [][]byte, hashes []uint64, first []int32) {
	for begin := 0; begin < len(keys); begin += screenSize {
		n := 0
		s.begin = begin
		for i := begin; i < min(begin+screenSize, len(keys)); i++ {
			s.sample[i-begin] = s.Denied != nil && s.Sampled(i)
			if first[i] >= 0 {
				first[i] = int32(len(v.Runs))
				s.pending[n], s.hashOf[n] = int32(i), hashes[i]
				n++
			}
		}
		for r := 0; r < len(v.Runs) && n > 0; r++ {
			n = s.askRun(v.Runs[r], int32(r), n, keys, hashes, first)
		}
	}
}

// askRun asks run number r about the first n pending keys, and returns how many stay pending.
func (s *Screen) askRun(run *Run, r int32, n int, keys [][]byte, hashes []uint64, first []int32) int {
	if len(run.Tables) == 1 {
		if f := run.Tables[0].Filter(); f != nil && f.Hasher() == s.Hasher {
			return s.askOnly(run, f, r, n, keys, first)
		}
	}
	n = s.askByTables(run, r, n, keys, hashes, first)
	for j, i := range s.pending[:n] {
		s.hashOf[j] = hashes[i]
	}
	return n
}

// askOnly is askRun for a run of one table, whose filter is f and takes the hashes as they are. To ask
// about a key outside of the table's range costs less than to find that out first. Such a key stays
// pending, and does not count as denied.
func (s *Screen) askOnly(run *Run, f *bloom.Static, r int32, n int, asked [][]byte, first []int32) (stay int) {
	f.MayContainMany(s.hashOf[:n], s.maybe[:n])
	low, high := run.bounds.Smallest[0], run.bounds.Largest[0]
	whole := len(run.bounds.Prefix) == 0 // low and high are heads of whole keys
	counts, denied := s.Denied != nil, 0
	for j, i := range s.pending[:n] {
		if s.maybe[j] || counts {
			head := uint64(0)
			if whole {
				head = keys.Head(asked[i])
			}
			in := low < head && head < high && whole || run.bounds.Find(asked[i], run) == 0
			switch {
			case in && s.maybe[j]:
				first[i] = r
				continue
			case in:
				denied++
				if s.sample[int(i)-s.begin] {
					s.DeniedBy(run.Tables[0])
				}
			}
		}
		if stay != j {
			s.pending[stay], s.hashOf[stay] = i, s.hashOf[j]
		}
		stay++
	}
	s.countDenied(run, denied)
	return stay
}

// askByTables is askRun for any run. It leaves hashOf as it was.
func (s *Screen) askByTables(run *Run, r int32, n int, keys [][]byte, hashes []uint64, first []int32) int {
	for j, i := range s.pending[:n] {
		s.table[j] = int32(run.bounds.Find(keys[i], run))
	}
	if len(run.Tables) > mostTables {
		return s.askEach(run, r, n, keys, hashes, first)
	}
	stay, denied := s.sort(n, len(run.Tables)), 0
	begin := uint16(0)
	for t, end := range s.ends[:len(run.Tables)] {
		if begin < end {
			no := s.askTable(run.Tables[t], r, s.sorted[begin:end], keys, hashes, first)
			denied += copy(s.pending[stay:], s.sorted[begin:int(begin)+no])
			stay += no
		}
		begin = end
	}
	s.countDenied(run, denied)
	return stay
}

// sort puts the first n pending keys into sorted, by their tables, and sets ends. It leaves those that
// have no table in pending and returns how many these are.
func (s *Screen) sort(n, tables int) (stay int) {
	ends := s.ends[:tables+1]
	clear(ends)
	if tables == 1 { // as in level 0
		for j, i := range s.pending[:n] {
			if s.table[j] == 0 {
				s.sorted[ends[0]] = i
				ends[0]++
			} else {
				s.pending[stay] = i
				stay++
			}
		}
		return stay
	}
	for _, t := range s.table[:n] {
		ends[t+1]++ // ends[0] counts the keys without a table
	}
	ends[0] = 0
	for t := range tables {
		ends[t+1] += ends[t]
	}
	// ends[t] is where the keys of table t begin, and after this loop where they end.
	for j, i := range s.pending[:n] {
		if t := s.table[j]; t >= 0 {
			s.sorted[ends[t]] = i
			ends[t]++
		} else {
			s.pending[stay] = i
			stay++
		}
	}
	return stay
}

// askTable asks the filter of t about some keys. It moves those that the filter denies to the beginning
// of some, and returns how many they are.
func (s *Screen) askTable(t *Table, r int32, some []int32, keys [][]byte, hashes []uint64, first []int32) (denied int) {
	f := t.Filter()
	if f == nil {
		for _, i := range some {
			first[i] = r
		}
		return 0
	}
	hasher := f.Hasher()
	for j, i := range some {
		if s.hashes[j] = hashes[i]; hasher != s.Hasher {
			s.hashes[j] = hasher.Hash(keys[i])
		}
	}
	f.MayContainMany(s.hashes[:len(some)], s.maybe[:len(some)])
	for j, i := range some {
		if s.maybe[j] {
			first[i] = r
			continue
		}
		if s.sample[int(i)-s.begin] {
			s.DeniedBy(t)
		}
		some[denied] = i
		denied++
	}
	return denied
}

// askEach is askRun for a run of so many tables that hardly two keys have one table.
func (s *Screen) askEach(run *Run, r int32, n int, keys [][]byte, hashes []uint64, first []int32) (stay int) {
	denied := 0
	for j, i := range s.pending[:n] {
		no := 1
		if t := s.table[j]; t >= 0 {
			s.sorted[0] = i
			no = s.askTable(run.Tables[t], r, s.sorted[:1], keys, hashes, first)
			denied += no
		}
		s.pending[stay] = i
		stay += no
	}
	s.countDenied(run, denied)
	return stay
}

func (s *Screen) countDenied(run *Run, n int) {
	if s.Denied != nil && n > 0 {
		s.Denied(run.Level, n)
	}
}
