package compaction

import (
	"fmt"
	"os"
	"testing"
)

// observe lives through so many bytes of writes after a start, and looks at the
// tree now and then.
func (s *simulation) observe(bytes float64) {
	begin := s.flushed
	every := max(1, int(bytes/float64(s.o.MemtableSize/memtableEntry*tableEntry)/100))
	for n := 0; s.flushed < begin+bytes; n++ {
		s.flush()
		s.settle()
		if n%every == 0 && s.flushed > begin+bytes/2 {
			s.seen.sample(s)
		}
	}
}

func try(t *testing.T, name string, o Options) {
	for _, load := range []workload{{updates: 1}, {updates: 1, shares: zipfian(256)}} {
		line := ""
		var wa, met, rate, sp, pk float64
		n := 0.
		var lv [7]float64
		for _, gb := range []float64{4, 16, 32, 64} {
			s := newSimulation(t, o, load)
			s.fill(int64(gb * (1 << 30)))
			s.observe(gb * (1 << 29))
			s.flushed, s.written = 0, [7]float64{}
			s.observe(gb * (1 << 29))
			var a float64
			a, lv = s.writeAmplification()
			line += fmt.Sprintf(" %5.2f", a)
			wa += a
			met += s.seen.met / s.seen.samples
			rate += s.seen.rate / s.seen.samples
			sp += s.seen.amplified / s.seen.samples
			pk += s.seen.peak
			n++
		}
		fmt.Printf("%-20s %v WA %5.2f (%s) met %.2f fpr %.4f space %.3f peak %.2f %5.2f\n", name, load.shares != nil, wa/n, line, met/n, rate/n, sp/n, pk/n, lv)
	}
}

func TestTry(t *testing.T) {
	if os.Getenv("TRY") == "" {
		t.Skip()
	}
	try(t, "K=1", Options{LevelRuns: 1})
	try(t, "K=2", Options{LevelRuns: 2})
	try(t, "K=4", Options{LevelRuns: 4})
}
