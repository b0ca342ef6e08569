package compaction

import (
	"math"
	"testing"
)

// TestTraffic holds the estimate against simulations of stores with one and with two runs a level: bytes written in all, and
// the tables that these are, since each is an object of a bucket.
func TestTraffic(t *testing.T) {
	for i, c := range []struct {
		name  string
		o     Options
		bytes int64
	}{
		{"of 100 times the base", small(1), 400 << 20},
		{"of 100 times the base with two runs", small(2), 400 << 20},
		{"of 25 times the base", small(1), 100 << 20},
		{"of 800 times the base", small(0), 3200 << 20},
		{"of 200 times the base", small(0), 800 << 20},
	} {
		if i >= 3 && testing.Short() {
			break
		}
		s := newSimulation(t, c.o, workload{updates: 1})
		s.fill(c.bytes)
		s.live(float64(c.bytes) / 10)
		s.warm()
		first := s.next
		s.live(float64(c.bytes) / 4)
		made := float64(s.next - first)
		wa, levels := s.writeAmplification()
		total := int64(0)
		for level := range s.v.Levels {
			total += s.v.Bytes(level)
		}
		sum, objects := 0.0, 0.0
		for _, l := range Traffic(total, s.flushBytes(), c.o) {
			t.Logf("L%d: %s, written %.2f, simulated %.2f and %s in %d tables", l.Level, byteSize(l.Bytes), l.Written,
				levels[l.Level], byteSize(s.v.Bytes(l.Level)), s.v.Totals(l.Level).Tables)
			sum += l.Written
			objects += s.flushed * l.Written / float64(l.TableSize)
		}
		t.Logf("%s: written %.2f times, simulated %.2f; in %.0f tables, simulated %.0f", c.name, sum, wa, objects, made)
		if math.Abs(sum/wa-1) > 0.15 || math.Abs(objects/made-1) > 0.2 {
			t.Errorf("%s: written %.2f times in %.0f tables, simulated %.2f and %.0f", c.name, sum, objects, wa, made)
		}
	}
}
