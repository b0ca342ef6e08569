package tree

import (
	"bytes"
	"math/bits"
	"runtime"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/keys"
)

// ScreenSize is how many keys a Screen takes at a time.
const ScreenSize = 1 << 8

// fewAsked is the number of keys for each table of a run from which on it pays to sort them by tables.
const fewAsked = 4

// SampleEvery is how many absent keys there are for one that counts in Table.Negatives. It is a
// power of two: 16, and with more than two processors 8 to 16 for each. So however many processors
// look keys up, they do not write to the counts of one table more often than two would. Only tests
// change it, before they use a store.
var SampleEvery = sampleEveryFor(runtime.GOMAXPROCS(0))

func sampleEveryFor(processors int) int { return 8 << bits.Len(uint(max(processors, 2)-1)) }

// A Screen asks the filters of a version about many keys, in memory that may be used again. One
// goroutine at a time uses it. It reads no file, but filters that Open
// has left, and allocates nothing.
//
// It takes the runs one after the other, newest first, and in each run the keys that no newer run may
// have. It sorts these by their tables, so that each filter is asked about all its keys at once. The
// filter of a run of one table, as in level 0, is asked about all keys, also those outside of its range.
type Screen struct {
	// Hasher is the function that the hashes of the keys are made by.
	Hasher bloom.Hasher
	// Denied counts, by level, the keys in the range of a table that its filter has denied.
	Denied [base.NumLevels]uint64
	// If Sampling is set, each SampleEvery-th of these keys adds SampleEvery to the Negatives of its
	// table. Sampled is the number of keys since the last one. The caller sets it at random: keys
	// that come in turns must not always count for the same tables.
	Sampling bool
	Sampled  int

	// First is what FirstMaybe changes.
	First [ScreenSize]int32

	keys [][]byte // that FirstMaybe asks for
	// The keys that no run so far may have: their indexes and their hashes. An index fits into a byte,
	// so that the compiler need not check it.
	pending  [ScreenSize]uint8
	hashOf   [ScreenSize]uint64
	heads    keys.Heads // of the keys, by index, for the bounds of headsFor
	headsFor *Run

	// Of one run.
	table   [ScreenSize]int32               // the index of the table for each pending key, or -1
	ends    [ScreenSize/fewAsked + 1]uint16 // where the keys of each table end in sorted
	sorted  [ScreenSize]uint8               // the pending keys that have a table, by their tables
	hashes  [ScreenSize]uint64              // of sorted
	foreign [ScreenSize]uint64              // of the keys of one table, by another Hasher
	maybe   [ScreenSize]bool                // the answers
}

// FirstMaybe sets First[i] to the index of the first run of v that may have keys[i], as far as filters
// in memory know, or to len(v.Runs) if no run has it. It leaves out the keys for which First[i] is
// below 0. hashes[i] is the hash of keys[i]. Requires: there are at most ScreenSize keys.
func (s *Screen) FirstMaybe(v *Version, keys [][]byte, hashes []uint64) {
	n := 0
	for i, h := range hashes {
		if s.First[i] >= 0 {
			s.First[i] = int32(len(v.Runs))
			n = s.keep(n, uint8(i), h)
		}
	}
	s.keys = keys
	for r := 0; r < len(v.Runs) && n > 0; r++ {
		n = s.askRun(v.Runs[r], int32(r), n)
	}
	s.keys, s.headsFor = nil, nil // they may go
}

// keep makes key i, with hash h, the pending key behind the first stay ones. It returns how many there
// are then.
func (s *Screen) keep(stay int, i uint8, h uint64) int {
	s.pending[uint8(stay)], s.hashOf[uint8(stay)] = i, h
	return stay + 1
}

// askRun asks run number r about the first n pending keys, and returns how many stay pending.
func (s *Screen) askRun(run *Run, r int32, n int) (stay int) {
	s.takeHeads(run, n)
	if len(run.Tables) == 1 {
		if f := run.Tables[0].NeededFilter(); f != nil && f.Hasher() == s.Hasher {
			return s.askOnly(run, f, r, n)
		}
	}
	run.bounds.FindMany(s.keys, s.pending[:n], &s.heads, run, s.table[:n])
	if n < fewAsked*len(run.Tables) {
		return s.askEach(run, r, n)
	}
	stay = s.sort(n, len(run.Tables))
	begin := 0
	for t, end := range s.ends[:len(run.Tables)] {
		if begin < int(end) {
			stay = s.askTable(run, t, r, begin, int(end), stay)
		}
		begin = int(end)
	}
	return stay
}

// takeHeads sets s.heads to what run needs. Mostly it has the prefix of the last run.
func (s *Screen) takeHeads(run *Run, n int) {
	if last := s.headsFor; last == nil || !bytes.Equal(last.bounds.Prefix, run.bounds.Prefix) {
		run.bounds.HeadsOf(s.keys, s.pending[:n], &s.heads)
	}
	s.headsFor = run
}

// askOnly is askRun for a run of one table, whose filter is f and takes the hashes as they are. To ask
// about a key outside of the table's range costs less than to find that out first. Such a key stays
// pending, and does not count as denied.
func (s *Screen) askOnly(run *Run, f *bloom.Static, r int32, n int) (stay int) {
	f.MayContainMany(s.hashOf[:n], s.maybe[:n])
	low, high := run.bounds.Smallest[0], run.bounds.Largest[0]
	outside := 0
	for j, i := range s.pending[:n] {
		if head := s.heads[i]; head <= low || high <= head { // if it is one of them, the whole key decides
			if run.bounds.Find(s.keys[i], run) < 0 {
				outside++
				s.maybe[j] = false
			}
		}
		if s.maybe[j] {
			s.First[i] = r
			continue
		}
		stay = s.keep(stay, i, s.hashOf[j])
	}
	s.deny(run, 0, stay-outside)
	return stay
}

// sort puts the first n pending keys that have a table into sorted, by their tables, and sets ends. The
// others stay pending. It returns how many these are.
func (s *Screen) sort(n, tables int) (stay int) {
	ends := s.ends[:tables+1]
	clear(ends)
	for _, t := range s.table[:n] {
		ends[t+1]++ // ends[0] counts the keys without a table
	}
	ends[0] = 0
	for t := range tables {
		ends[t+1] += ends[t]
	}
	// ends[t] is where the keys of table t begin, and after this loop where they end.
	for j, i := range s.pending[:n] {
		h := s.hashOf[j]
		if t := s.table[j]; t >= 0 {
			to := ends[t]
			s.sorted[to], s.hashes[to] = i, h
			ends[t] = to + 1
		} else {
			stay = s.keep(stay, i, h)
		}
	}
	return stay
}

// askTable asks the filter of table t of a run about the keys from begin to end of sorted. Those that it
// denies stay pending, behind the first stay ones. It returns how many keys stay pending then.
func (s *Screen) askTable(run *Run, t int, r int32, begin, end, stay int) int {
	some, hashes, maybe := s.sorted[begin:end], s.hashes[begin:end], s.maybe[:end-begin]
	f := run.Tables[t].NeededFilter()
	if f == nil {
		for _, i := range some {
			s.First[i] = r
		}
		return stay
	}
	asked := hashes
	if hasher := f.Hasher(); hasher != s.Hasher {
		asked = s.foreign[:len(some)]
		for j, i := range some {
			asked[j] = hasher.Hash(s.keys[i])
		}
	}
	f.MayContainMany(asked, maybe)
	had := stay
	for j, i := range some {
		if maybe[j] {
			s.First[i] = r
			continue
		}
		stay = s.keep(stay, i, hashes[j])
	}
	s.deny(run, t, stay-had)
	return stay
}

// askEach is askRun for a run of so many tables that hardly two keys have one table.
func (s *Screen) askEach(run *Run, r int32, n int) (stay int) {
	for j, i := range s.pending[:n] {
		h := s.hashOf[j]
		if t := s.table[j]; t >= 0 {
			f, asked := run.Tables[t].NeededFilter(), h
			if f != nil && f.Hasher() != s.Hasher {
				asked = f.Hasher().Hash(s.keys[i])
			}
			if f == nil || f.MayContainHash(asked) {
				s.First[i] = r
				continue
			}
			s.deny(run, int(t), 1)
		}
		stay = s.keep(stay, i, h)
	}
	return stay
}

// deny counts n keys that the filter of table t of a run has denied.
func (s *Screen) deny(run *Run, t, n int) {
	s.Denied[run.Level%base.NumLevels] += uint64(n)
	s.Sampled += n
	if s.Sampled >= SampleEvery && s.Sampling {
		run.Tables[t].Negatives.Add(uint64(s.Sampled &^ (SampleEvery - 1)))
		s.Sampled %= SampleEvery
	}
}
