package remote

import (
	"testing"
	"time"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// The last reads count most, a table that has come begins with the mean of its level, and one that has gone is forgotten.
func TestHeats(t *testing.T) {
	sought := map[uint64]uint32{1: 100, 2: 0, 3: ^uint32(0), 4: 7}
	at := func(nums ...int) (tables []manifest.Added) {
		for _, num := range nums {
			level := 6
			if num == 4 {
				level = 5
			}
			tables = append(tables, manifest.Added{Level: level, Table: &manifest.Table{Num: base.FileNum(num)}})
		}
		return tables
	}
	var h heats
	now := time.Unix(1e9, 0)
	look := func(nums ...int) { h.look(at(nums...), func(num uint64) uint32 { return sought[num] }, now) }
	want := func(when string, reads map[base.FileNum]float64) {
		t.Helper()
		if len(h.of) != len(reads) {
			t.Errorf("%s: %d tables, want %d", when, len(h.of), len(reads))
		}
		for num, n := range reads {
			if got := h.of[num].reads; got < n-0.01 || got > n+0.01 {
				t.Errorf("%s: %v reads of table %d, want %v", when, got, num, n)
			}
		}
	}
	look(1, 2, 4)
	want("at first", map[base.FileNum]float64{1: 100, 2: 0, 4: 7})
	sought[2], sought[4] = 30, 7
	now = now.Add(halfLife)
	look(1, 2, 4)
	want("a half-life later", map[base.FileNum]float64{1: 50, 2: 30, 4: 3.5})
	if h.compare(2, 1) >= 0 || h.compare(1, 2) <= 0 || h.compare(1, 1) != 0 {
		t.Error("table 2 is not colder than table 1")
	}
	sought[5] = 2
	look(1, 2, 3, 4, 5)
	want("with two more", map[base.FileNum]float64{1: 50, 2: 30, 3: 40 + 1<<32 - 1, 4: 3.5, 5: 42})
	sought[3] = 9 // it has wrapped round
	now = now.Add(time.Hour)
	look(2, 3)
	want("an hour later", map[base.FileNum]float64{2: 30.0 / 64, 3: (40+1<<32-1)/64.0 + 10})
}
