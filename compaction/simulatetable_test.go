package compaction

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/manifest"
)

// TestSimulate_Table prints the costs of the planner's choices: make
// simulate. It takes at most SHALE_LONG, and prints what it leaves out.
func TestSimulate_Table(t *testing.T) {
	limit := testenv.Long(t)
	if limit == 0 {
		t.Skip("takes minutes: SHALE_LONG=1h, or make simulate")
	}
	p := &printer{t: t, end: time.Now().Add(limit)}
	p.runs()
	p.variants()
	p.rates()
	p.huge()
	if p.left > 0 {
		fmt.Printf("\n%d rows left out: the time was up\n", p.left)
	}
}

// A printer prints tables until a given time.
type printer struct {
	t    *testing.T
	end  time.Time
	left int
}

// over counts a row, and reports whether the time is up.
func (p *printer) over() bool {
	if time.Now().Before(p.end) {
		return false
	}
	p.left++
	return true
}

const head = `
| %s | K | written | by level, from level 0 | runs met | at most | false positives | bits a key | space | at most | largest merge |
|---|---|---|---|---|---|---|---|---|---|---|
`

// row fills a store, writes to it to warm up, writes the same again, and prints a row.
func (p *printer) row(name string, o Options, load workload, size, writes int64) {
	if p.over() {
		return
	}
	s := newSimulation(p.t, o, load)
	s.fill(size)
	s.live(float64(writes))
	s.warm()
	s.input = 0
	s.live(float64(writes))
	if err := s.v.Check(); err != nil {
		p.t.Error(err)
	}
	s.checkShape()
	wa, levels := s.writeAmplification()
	by := fmt.Sprintf("%.1f", levels[0])
	for level := baseLevel(s.v, s.o); level < manifest.NumLevels; level++ {
		by += fmt.Sprintf(" + %.1f", levels[level])
	}
	m := s.seen.means()
	fmt.Printf("| %s | %d | %.1f | %s | %.1f | %d | %.2f %% | %.1f | %.2f | %.2f | %s |\n",
		name, s.levelRuns(1), wa, by, m.met, m.maxRuns, 100*m.rate, m.bits, m.amplified, m.peak, byteSize(s.input))
}

var levelRuns = []int{1, 2, 4, 8}

const gigabyte = 1 << 30

// runs prints the table about the number of runs that a level may have.
func (p *printer) runs() {
	fmt.Printf(head, "writes to")
	for _, size := range []int64{1, 10, 100} {
		for _, load := range []workload{
			{name: "any of so many keys", updates: 1},
			{name: "these, zipfian by range", updates: 1, shares: zipfian(256)},
			{name: "these and new keys", updates: 0.5},
			{name: "new keys", updates: 0},
		} {
			for _, runs := range levelRuns {
				p.row(fmt.Sprintf("%d GiB, %s", size, load.name), Options{LevelRuns: runs}, load, size*gigabyte, size*gigabyte/2)
			}
		}
	}
	fmt.Println("\nA load in the order of the keys is moved down and never rewritten, whatever K is.")
}

// variants prints the table about the other choices, with one workload. The figures
// are means over several sizes, because one size may be lucky in where its levels end.
func (p *printer) variants() {
	fmt.Printf("\n| any key of 4, 8, 16, 32 and 64 GiB; means | K | written | runs met | false positives | space | at most |\n|---|---|---|---|---|---|---|\n")
	for _, runs := range []int{1, 2} {
		cursor := make(map[int]uint64)
		for _, c := range []struct {
			name string
			o    Options
		}{
			{"the store's options", Options{}},
			{"multiplier 8", Options{multiplier: 8}},
			{"multiplier 16", Options{multiplier: 16}},
			{"level 0 goes down from 2 runs on", Options{Level0Trigger: 2}},
			{"from 8 runs on", Options{Level0Trigger: 8}},
			{"the base level holds 64 MiB", Options{BaseBytes: 64 << 20}},
			{"256 MiB", Options{BaseBytes: 256 << 20}},
			{"tables go down one by one", Options{maxBytes: 1}},
			{"merges of up to 800 MiB", Options{maxBytes: 1600 << 20}},
			{"tables of 8 MiB", Options{TableSize: 8 << 20}},
			{"the next in the order of keys goes down", Options{order: func(level int, inputs []Input, _ float64) float64 {
				return float64((numberOf(inputs) - cursor[level]) % keySpace)
			}}},
			{"the oldest goes down", Options{order: func(_ int, inputs []Input, _ float64) float64 {
				return float64(inputs[len(inputs)-1].Tables[0].MinSeq)
			}}},
		} {
			c.o.LevelRuns = runs
			p.mean(c.name, c.o, cursor)
		}
	}
}

func numberOf(inputs []Input) uint64 {
	return binary.BigEndian.Uint64(inputs[len(inputs)-1].Tables[0].Smallest)
}

func (p *printer) mean(name string, o Options, cursor map[int]uint64) {
	if p.over() {
		return
	}
	var wa, n float64
	var sum observations
	for _, size := range []int64{4, 8, 16, 32, 64} {
		s := newSimulation(p.t, o, workload{updates: 1})
		s.picked = func(p *Plan) {
			if in := p.Inputs[:1]; p.From > 0 {
				cursor[p.From] = binary.BigEndian.Uint64(in[0].Tables[len(in[0].Tables)-1].Largest)
			}
		}
		s.fill(size * gigabyte)
		s.live(float64(size * gigabyte / 2))
		s.warm()
		s.live(float64(size * gigabyte / 2))
		m := s.seen.means()
		n++
		wa += s.amplification()
		sum.met += m.met
		sum.rate += m.rate
		sum.amplified += m.amplified
		sum.peak += m.peak
	}
	fmt.Printf("| %s | %d | %.1f | %.1f | %.2f %% | %.2f | %.2f |\n", name, o.LevelRuns, wa/n, sum.met/n, 100*sum.rate/n, sum.amplified/n, sum.peak/n)
}

// rates prints the table about the write rate that a disk can keep up with.
func (p *printer) rates() {
	fmt.Printf("\n| 20 GiB, any key, a disk of 200 MB/s | K | writes offered, MB/s | done | runs in level 0 | slowed or stopped | written |\n|---|---|---|---|---|---|---|\n")
	for _, workers := range []int{1, 4} {
		for _, runs := range levelRuns {
			for _, rate := range []float64{5, 10, 15, 20, 30} {
				if p.over() {
					continue
				}
				s := newSimulation(p.t, Options{LevelRuns: runs}, workload{updates: 1})
				s.fill(20 * gigabyte)
				c := &clock{simulation: s, bandwidth: 200e6, workers: workers, ingest: rate * 1e6}
				c.live(5 * gigabyte)
				s.warm()
				began, slowed := c.now, c.slowed
				c.live(10 * gigabyte)
				took := c.now - began
				fmt.Printf("| workers: %d | %d | %.0f | %.1f | %d | %.0f %% | %.1f |\n",
					workers, runs, rate, s.flushed/took/1e6, s.seen.maxLevel0, 100*(c.slowed-slowed)/took, s.amplification())
			}
		}
	}
}

// huge prints the table about 10 TiB.
func (p *printer) huge() {
	fmt.Printf(head, "writes to")
	for _, runs := range levelRuns {
		p.row("10 TiB, any of so many keys", Options{LevelRuns: runs}, workload{updates: 1}, 10<<40, 15*gigabyte)
	}
}
