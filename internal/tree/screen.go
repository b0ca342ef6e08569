package tree

import "github.com/shaledb/shale/bloom"

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
// have. It sorts these by their tables, so that each filter is asked about all its keys at once.
type Screen struct {
	// Hasher is the function that the hashes of the keys are made by.
	Hasher bloom.Hasher
	// Denied, if it is set, is called when filters of level have denied n keys.
	Denied func(level, n int)
	// DeniedBy, if it is set, is called when the filter of t has denied key i.
	DeniedBy func(t *Table, i int)

	pending [screenSize]int32      // keys that no run so far may have
	table   [screenSize]int32      // the index of the table for each pending key, or -1
	sorted  [screenSize]int32      // the pending keys that have a table in a run, by their tables
	ends    [mostTables + 1]uint16 // where the keys of each table end in sorted
	hashes  [screenSize]uint64     // of the keys that one filter is asked about
	maybe   [screenSize]bool       // the answers
}

// FirstMaybe sets first[i] to the index of the first run of v that may have keys[i], as far as filters
// in memory know, or to len(v.Runs) if no run has it. It leaves out the keys for which first[i] is
// below 0. hashes[i] is the hash of keys[i].
func (s *Screen) FirstMaybe(v *Version, keys [][]byte, hashes []uint64, first []int32) {
	for begin := 0; begin < len(keys); begin += screenSize {
		n := 0
		for i := begin; i < min(begin+screenSize, len(keys)); i++ {
			if first[i] >= 0 {
				first[i] = int32(len(v.Runs))
				s.pending[n] = int32(i)
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
		if s.DeniedBy != nil {
			s.DeniedBy(t, int(i))
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
