package sketch

import (
	"strconv"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A copy of an opened filter does not lean on the bytes.
func TestOpen_CloneIsFree(t *testing.T) {
	b := filtertest.Marshal(t, countingOf(CountingOptions{Keys: 100}, 100))
	c := filtertest.Marshal(t, cuckooOf(CuckooOptions{Keys: 100}, 100))
	counting, cuckoo := bloom.Must(OpenCounting(b)).Clone(), bloom.Must(OpenCuckoo(c)).Clone()
	clear(b)
	clear(c)
	filtertest.CheckHas(t, counting, 0, 100)
	filtertest.CheckHas(t, cuckoo, 0, 100)
	if strconv.IntSize == 32 {
		return // a Bitset has no such numbers there
	}
	if again := bloom.Must(OpenBitset(filtertest.Marshal(t, bitsetOf(1<<40, 1<<33)))); !again.Has(1<<33) || again.Limit() < 1<<33 {
		t.Errorf("a large number is not opened: limit %d", again.Limit())
	}
}
