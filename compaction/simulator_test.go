package compaction

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A simulation is the life of a store without a disk: the planner and versions are
// the real ones, tables are counts of entries over ranges of keys, and merges are
// arithmetic. Keys are 62-bit numbers.
type simulation struct {
	t       testing.TB
	o       Options
	load    workload
	v       *manifest.Version
	content map[base.FileNum]*counts
	next    base.FileNum
	busy    InFlight

	keys    float64 // distinct keys ever written
	flushes int
	ends    uint64 // of what a sequential load has written

	flushed float64 // bytes
	written [manifest.NumLevels]float64
	plans   [4]int
	input   int64 // largest inputs of a merge
	checked bool  // plans are checked too
	picked  func(*Plan)
	seen    observations
}

const (
	keySpace = 1 << 62
	// What an entry of 116 bytes takes in a table, and in a memtable: measured
	// (docs/PERFORMANCE.md, "Where memory goes").
	tableEntry, memtableEntry = 73, 169
)

func simKey(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }

// A workload says which keys are written.
type workload struct {
	name       string
	updates    float64   // share of writes to keys that are there already
	shares     []float64 // of writes in each of equal parts of the key range; nil: uniform
	sequential bool
}

// zipfian gives part i of n a share in proportion to 1/(i+1), the parts shuffled.
func zipfian(n int) []float64 {
	shares := make([]float64, n)
	sum := 0.0
	for i := range shares {
		shares[i*167%n] = 1 / float64(i+1)
		sum += 1 / float64(i+1)
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// A segment of a table holds entries that are spread evenly. fresh are those of
// keys that nothing older holds.
type segment struct {
	end            uint64
	entries, fresh float64
}

// A counts describes a table: segments one after the other, beginning at the key lo.
type counts struct {
	lo   uint64
	segs []segment
}

func (c *counts) hi() uint64 { return c.segs[len(c.segs)-1].end }

func (c *counts) entries() (n float64) {
	for _, s := range c.segs {
		n += s.entries
	}
	return n
}

func newSimulation(t testing.TB, o Options, load workload) *simulation {
	s := &simulation{
		t: t, o: o.withDefaults(), load: load, v: &manifest.Version{}, content: make(map[base.FileNum]*counts),
	}
	s.o.DropSeq = base.MaxSeq
	return s
}

// table makes a table from counts.
func (s *simulation) table(c *counts, minSeq, maxSeq base.Seq, bits float64) *manifest.Table {
	s.next++
	s.content[s.next] = c
	n := max(1, uint64(math.Round(c.entries())))
	return &manifest.Table{
		Num: s.next, Size: int64(n) * tableEntry, Smallest: simKey(c.lo), Largest: simKey(c.hi() - 1),
		MinSeq: minSeq, MaxSeq: maxSeq, Entries: n, Keys: n, FilterBits: bits,
	}
}

func (s *simulation) apply(e *manifest.Edit) {
	next, err := s.v.Apply(e)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, e)
	}
	s.v = next
}

// fill puts keys into the levels as in a store that was
// written to for a long time, without simulating these writes.
func (s *simulation) fill(bytes int64) {
	s.fillRun(lastLevel, 0, bytes, 0, func(part float64) float64 { return part })
	s.keys = float64(bytes / tableEntry)
	shape := shapeOf(s.v, s.o, &InFlight{})
	for level := lastLevel - 1; level > 0 && shape.target[level] > 0; level-- {
		// Where a level was compacted last, it is empty. Elsewhere it
		// is fuller the longer ago that was, up to twice the mean.
		for run := range s.levelRuns(level) {
			s.fillRun(level, uint64(run), shape.target[level]/int64(s.levelRuns(level)), keySpace/16*uint64(3*level), math.Sqrt)
		}
	}
	filters := s.filters(nil)
	for level := range s.v.Levels {
		for _, run := range s.v.Levels[level].Runs {
			bits := filters.Bits(level, run.ID)
			for _, t := range run.Tables {
				t.FilterBits = bits
			}
		}
	}
}

// levelRuns returns how many runs a level may hold now.
func (s *simulation) levelRuns(level int) int {
	o := s.o.forVersion(s.v)
	return o.levelRuns(level)
}

// filters returns the bits of the filters for the tree as
// it is when p is done, with 10 bits a key on average.
func (s *simulation) filters(p *Plan) filterplan.Plan {
	return filterplan.Policy{AverageBits: 10}.Plan(FilterTree(s.v, p, s.o), filterplan.ProbeShares{})
}

// fillRun fills a run with tables. at says below which part of the key range
// a given part of the entries lies. The keys begin at first and wrap around.
func (s *simulation) fillRun(level int, run uint64, bytes int64, first uint64, at func(part float64) float64) {
	var edit manifest.Edit
	runs := int64(s.levelRuns(level))
	tableSize := s.o.tableSize(bytes*runs) / runs // for what they lie over
	n := int((bytes + tableSize - 1) / tableSize)
	entries := float64(bytes) / tableEntry / float64(n)
	fresh := 0.
	if level == lastLevel {
		fresh = entries
	}
	add := func(lo, hi uint64, part float64) {
		if hi > lo {
			t := s.table(&counts{lo, []segment{{hi, entries * part, fresh * part}}}, 1, 1, 10)
			edit.Added = append(edit.Added, manifest.Added{Level: level, Run: run, Table: t})
		}
	}
	lo := first % keySpace
	for i := range n {
		hi := (first + uint64(at(float64(i+1)/float64(n))*keySpace)) % keySpace
		if hi > lo {
			add(lo, hi, 1)
		} else {
			part := float64(hi) / float64(hi+keySpace-lo)
			add(lo, keySpace, 1-part)
			add(0, hi, part)
		}
		lo = hi
	}
	s.apply(&edit)
}

// flushBytes returns the size of a flushed table.
func (s *simulation) flushBytes() int64 { return s.o.MemtableSize / memtableEntry * tableEntry }

// flush adds a memtable's worth of writes to level 0.
func (s *simulation) flush() {
	s.flushes++
	writes := float64(s.o.MemtableSize / memtableEntry)
	c := s.memtable(writes)
	seq := base.Seq(s.flushes) + 1
	t := s.table(c, seq, seq, filterplan.FlushBits)
	s.flushed += float64(t.Size)
	s.written[0] += float64(t.Size)
	s.apply(&manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(s.flushes), Table: t}}})
	s.seen.runs(s.v)
}

// memtable returns the contents of a memtable after this number of writes.
func (s *simulation) memtable(writes float64) *counts {
	if s.load.sequential {
		lo := s.ends
		s.ends += 1 << 40
		s.keys += writes
		return &counts{lo, []segment{{s.ends, writes, writes}}}
	}
	fresh := writes * (1 - s.load.updates)
	shares := s.load.shares
	if shares == nil {
		shares = []float64{1}
	}
	c := &counts{}
	for i, share := range shares {
		entries := fresh * share
		if u := writes * s.load.updates * share; u > 0 { // some keys are written twice
			of := max(1, s.keys/float64(len(shares)))
			entries += of * -math.Expm1(-u/of)
		}
		end := uint64(keySpace) / uint64(len(shares)) * uint64(i+1)
		c.segs = append(c.segs, segment{end, entries, fresh * share})
	}
	s.keys += fresh
	return c
}

// pick returns the next plan; its kind is Nothing if none is due.
func (s *simulation) pick() Plan {
	p := Pick(s.v, s.o, s.busy)
	s.plans[p.Kind]++
	if s.picked != nil && p.Kind != Nothing {
		s.picked(&p)
	}
	if t, ok := s.t.(*testing.T); ok && s.checked {
		checkPlan(t, s.v, &p)
	}
	return p
}

// run returns the edit that carries a plan out, and the bytes that it writes.
func (s *simulation) run(p *Plan) (edit *manifest.Edit, written float64) {
	var added []manifest.Added
	if p.Kind == Merging {
		s.input = max(s.input, p.InputBytes())
		for _, t := range s.merge(p) {
			written += float64(t.Size)
			added = append(added, manifest.Added{Level: p.To, Run: p.OutputRun(), Table: t})
		}
	}
	return p.Edit(added...), written
}

// finish makes the result of a plan part of the version.
func (s *simulation) finish(p *Plan, edit *manifest.Edit, written float64) {
	s.written[p.To] += written
	s.apply(edit)
	if p.Kind == Move {
		return
	}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			delete(s.content, t.Num)
		}
	}
}

// settle compacts until nothing is due.
func (s *simulation) settle() {
	for range 100000 {
		p := s.pick()
		if p.Kind == Nothing {
			return
		}
		edit, written := s.run(&p)
		s.seen.space(s, written)
		s.finish(&p, edit, written)
	}
	s.t.Fatalf("compactions do not end:\n%s", s.shape())
}

// writeAmplification returns how many bytes were written
// to tables for each byte flushed, in all and by level.
func (s *simulation) writeAmplification() (all float64, levels [manifest.NumLevels]float64) {
	for level, n := range s.written {
		levels[level] = n / s.flushed
		all += levels[level]
	}
	return all, levels
}

func (s *simulation) amplification() float64 {
	all, _ := s.writeAmplification()
	return all
}

func (s *simulation) shape() string {
	text := ""
	for level := range s.v.Levels {
		if sum := s.v.Totals(level); sum.Tables > 0 {
			text += fmt.Sprintf("L%d %s ", level, byteSize(sum.Bytes))
			if n := len(s.v.Levels[level].Runs); n > 1 {
				text += fmt.Sprintf("in %d ", n)
			}
		}
	}
	return text
}

func byteSize(n int64) string {
	i, x := 0, float64(n)
	for ; x >= 1000; i++ {
		x /= 1024
	}
	return fmt.Sprintf("%.3g%c", x, " KMGTP"[i])
}
