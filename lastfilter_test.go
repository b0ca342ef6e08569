package shale

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// With binary fuse filters in the last level, a store of the same filter memory
// has half of the false positives or less, predicted and measured.
func TestLastLevelFilter(t *testing.T) {
	if testenv.Race {
		t.Skip("too many keys for the race detector")
	}
	const n = 200_000
	var rates, memory [2]float64
	for i, kind := range []FilterKind{BlockedFilter, FuseFilter} {
		// Fuse filters come in steps of a bit and an eighth, more in tables as small as
		// these: 10.5 bits are enough for the step that 10 are for usual tables.
		opts := &Options{FilterBits: 10.5, MemtableSize: 512 << 10, TableSize: 2 << 20, Durability: SyncManual, CompactionWorkers: -1, LastLevelFilter: kind,
			testing: testOptions{baseSize: 256 << 10}}
		db := openTest(t, opts)
		for k := range n {
			if err := db.Put(fmt.Appendf(nil, "%08x", uint32(2*k)*0x9e3779b1), []byte("a value")); err != nil {
				t.Fatal(err)
			}
			if k%(n/4) == 0 {
				settle(t, db)
			}
		}
		settle(t, db)
		for k := range n {
			if _, err := db.Has(fmt.Appendf(nil, "%08x", uint32(2*k+1)*0x9e3779b1)); err != nil {
				t.Fatal(err)
			}
		}
		m := db.Metrics()
		rates[i], memory[i] = ratio(m.FilterFalsePositive, m.GetMisses), float64(m.FilterMemory)
		if predicted := m.PredictedFPR(); rates[i] > 1.15*predicted || rates[i] < 0.7*predicted {
			t.Errorf("%v: %v measured, %v predicted\n%v", kind, rates[i], predicted, m)
		}
		kinds := make(map[string]int)
		for _, info := range db.Tables() {
			if info.Level == NumLevels-1 {
				kinds[info.FilterKind]++
			}
		}
		if fuse := kinds["fuse"]; (fuse > 0) != (kind == FuseFilter) || fuse > 0 && kinds["blocked"] > 1 { // a small one
			t.Errorf("%v: the last level has filters %v", kind, kinds)
		}
	}
	if rates[1] > 0.6*rates[0] || memory[1] > 1.05*memory[0] {
		t.Errorf("rates %v, memory %v: want fewer false positives in the same memory", rates, memory)
	}
	t.Logf("false positives a miss: %.5f blocked, %.5f fuse; filter memory %.0f and %.0f", rates[0], rates[1], memory[0], memory[1])
}
