package compaction

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A simulation is the life of a store without a disk: tables are sizes spread
// evenly over ranges of 64-bit keys.
type simulation struct {
	t       *testing.T
	o       Options
	v       *manifest.Version
	next    base.FileNum
	flushed int64
	written int64 // by merges
	plans   [4]int
	maxRuns int
	input   int64 // largest inputs of one merge
}

func simKey(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }

func (s *simulation) table(lo, hi uint64, size int64) *manifest.Table {
	s.next++
	keys := uint64(max(size/100, 1))
	return &manifest.Table{
		Num: s.next, Size: max(size, 1), Smallest: simKey(lo), Largest: simKey(hi),
		MinSeq: base.Seq(s.next), MaxSeq: base.Seq(s.next), Entries: keys, Keys: keys,
	}
}

// flush adds a run of level 0 and compacts until nothing is due.
func (s *simulation) flush(lo, hi uint64) {
	t := s.table(lo, hi, s.o.MemtableSize)
	s.flushed += t.Size
	s.apply(&manifest.Edit{Added: []manifest.Added{{Level: 0, Run: uint64(t.Num), Table: t}}})
	s.maxRuns = max(s.maxRuns, s.v.NumRuns())
	for range 10000 {
		p := Pick(s.v, s.o, InFlight{})
		s.plans[p.Kind]++
		checkPlan(s.t, s.v, &p)
		if p.Kind == Nothing {
			return
		}
		var added []manifest.Added
		if p.Kind == Merging {
			s.input = max(s.input, p.InputBytes())
			for _, t := range s.merge(&p) {
				s.written += t.Size
				added = append(added, manifest.Added{Level: p.To, Run: p.OutputRun(), Table: t})
			}
		}
		s.apply(p.Edit(added...))
	}
	s.t.Fatalf("compactions do not end:\n%s", s.shape())
}

func (s *simulation) apply(e *manifest.Edit) {
	next, err := s.v.Apply(e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.v = next
}

// merge spreads the inputs' bytes over tables, cut as Merge does.
func (s *simulation) merge(p *Plan) []*manifest.Table {
	density := make(map[uint64]float64) // change of the density at a key
	bound := make(map[uint64]bool)      // of a grandparent
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			lo, hi := binary.BigEndian.Uint64(t.Smallest), binary.BigEndian.Uint64(t.Largest)
			d := float64(t.Size) / (float64(hi-lo) + 1)
			density[lo] += d
			density[hi+1] -= d
		}
	}
	for _, t := range p.Grandparents {
		if bytes.Compare(t.Largest, p.Largest) < 0 {
			at := binary.BigEndian.Uint64(t.Largest) + 1
			density[at] += 0
			bound[at] = true
		}
	}
	var points []uint64
	for at := range density {
		points = append(points, at)
	}
	slices.Sort(points)
	var tables []*manifest.Table
	var rate, size float64
	begin := points[0]
	target := float64(s.o.TableSize)
	cut := func(at uint64) {
		if size >= 1 && at > begin {
			tables = append(tables, s.table(begin, at-1, int64(math.Round(size))))
		}
		begin, size = at, 0
	}
	for i, at := range points {
		if rate < 1e-300 {
			cut(at) // a gap, or the beginning
		} else {
			for from := max(begin, points[i-1]); ; {
				left := rate * float64(at-from)
				if size+left < target {
					size += left
					break
				}
				step := uint64((target-size)/rate) + 1
				size = target
				if step >= at-from {
					break
				}
				from += step
				cut(from)
			}
			if bound[at] && size >= target/4*3 {
				cut(at)
			}
		}
		rate += density[at]
		if rate < 1e-9*float64(s.o.TableSize)/math.MaxUint64 {
			rate = 0
		}
	}
	cut(points[len(points)-1])
	for _, out := range tables {
		out.MinSeq = base.MaxSeq
		for _, in := range p.Inputs {
			for _, t := range in.Tables {
				out.MinSeq = min(out.MinSeq, t.MinSeq)
			}
		}
	}
	return tables
}

func (s *simulation) amplification() float64 {
	return float64(s.written+s.flushed) / float64(s.flushed)
}

func (s *simulation) shape() string {
	text := ""
	for level := range s.v.Levels {
		if sum := s.v.Totals(level); sum.Tables > 0 {
			text += fmt.Sprintf("L%d %s ", level, byteSize(sum.Bytes))
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

// TestSimulate_FillRandom fills a store with 10 TB of random keys.
func TestSimulate_FillRandom(t *testing.T) {
	const memtable = 4 << 30
	s := &simulation{t: t, v: &manifest.Version{}, o: Options{MemtableSize: memtable, TableSize: memtable / 2}}
	for s.flushed < 10<<40 {
		s.flush(0, math.MaxUint64-1)
	}
	t.Logf("%s written %.1f times, plans %v, at most %d runs, inputs up to %s", s.shape(), s.amplification(), s.plans, s.maxRuns, byteSize(s.input))
	s.checkShape(s.flushed)
	if a := s.amplification(); a > 22 {
		t.Errorf("write amplification %.1f, want 22 at most", a)
	}
}

// checkShape asserts that no byte was lost and that the levels have the sizes
// that they should.
func (s *simulation) checkShape(total int64) {
	s.t.Helper()
	if err := s.v.Check(); err != nil {
		s.t.Fatal(err)
	}
	var sum int64
	for level := range s.v.Levels {
		sum += s.v.Bytes(level)
	}
	if math.Abs(float64(sum)/float64(total)-1) > 0.001 {
		s.t.Errorf("%d bytes in all levels, want %d", sum, total)
	}
	for level, score := range Scores(s.v, s.o) {
		if score >= 1 {
			s.t.Errorf("L%d has score %.2f when nothing is due", level, score)
		}
	}
	if above := float64(sum-s.v.Bytes(lastLevel)) / float64(sum); above > 0.2 {
		s.t.Errorf("%.0f %% of the data lie above the last level", 100*above)
	}
	base := BaseLevel(s.v, s.o)
	for level := 1; level < lastLevel; level++ {
		if filled := s.v.Bytes(level) > 0; level < base && filled {
			s.t.Errorf("L%d holds data above the base level L%d", level, base)
		}
	}
	if s.maxRuns > 4+manifest.NumLevels {
		s.t.Errorf("%d runs", s.maxRuns)
	}
}

// TestSimulate_FillAscending: a load in the order of the keys is moved down and
// never rewritten.
func TestSimulate_FillAscending(t *testing.T) {
	s := &simulation{t: t, v: &manifest.Version{}, o: Options{}.withDefaults()}
	const flushes = 3000
	for i := range uint64(flushes) {
		s.flush(i<<20, i<<20|(1<<20-1))
	}
	t.Logf("%s written %.2f times, plans %v", s.shape(), s.amplification(), s.plans)
	s.checkShape(s.flushed)
	if s.written != 0 {
		t.Errorf("%d bytes were rewritten, want none", s.written)
	}
}

// TestSimulate_TenTerabytes goes on with a store of 10 TB in tables of 16 MiB:
// planning and applying must be bearable with 700,000 tables.
func TestSimulate_TenTerabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := &simulation{t: t, v: &manifest.Version{}, o: Options{}.withDefaults()}
	var all manifest.Edit
	size := int64(10 << 40)
	for level := lastLevel; level >= 1; level-- {
		n := uint64(max(size/s.o.TableSize, s.o.BaseBytes/s.o.TableSize))
		width := math.MaxUint64 / n
		for i := range n {
			all.Added = append(all.Added, manifest.Added{Level: level, Table: s.table(i*width, (i+1)*width-1, s.o.TableSize)})
		}
		size /= 10
	}
	s.apply(&all)
	var before int64
	for level := range s.v.Levels {
		before += s.v.Bytes(level)
	}
	for range 24 {
		s.flush(0, math.MaxUint64-1)
	}
	t.Logf("%d tables, %s written %.1f times, plans %v, inputs up to %s", s.v.NumTables(), s.shape(), s.amplification(), s.plans, byteSize(s.input))
	s.checkShape(before + s.flushed)
	if a := s.amplification(); a > 45 {
		t.Errorf("write amplification %.1f, want 45 at most", a)
	}
	if s.input > 2*s.o.MaxBytes {
		t.Errorf("a merge of %s", byteSize(s.input))
	}
}

// TestSimulate_CompactAll: a range compaction of everything ends with all data
// in the last level.
func TestSimulate_CompactAll(t *testing.T) {
	s := &simulation{t: t, v: &manifest.Version{}, o: Options{DropSeq: base.MaxSeq}.withDefaults()}
	for range 200 {
		s.flush(0, math.MaxUint64-1)
	}
	job := NewManual(nil, nil)
	for steps := 0; ; steps++ {
		p, blocked := job.Next(s.v, s.o, InFlight{})
		if blocked || steps > 10000 {
			t.Fatalf("range compaction is blocked (%v) or does not end:\n%s", blocked, s.shape())
		}
		if p.Kind == Nothing {
			t.Logf("%d steps, then %s", steps, s.shape())
			break
		}
		var added []manifest.Added
		if p.Kind == Merging {
			for _, out := range s.merge(&p) {
				added = append(added, manifest.Added{Level: p.To, Run: p.OutputRun(), Table: out})
			}
		}
		s.apply(p.Edit(added...))
	}
	for level := range lastLevel {
		if n := s.v.Bytes(level); n > 0 {
			t.Errorf("L%d still holds %d bytes after a compaction of all", level, n)
		}
	}
}
