package cache

import (
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// The next block uses the buffer of a free one. So a full
// cache allocates nothing, however many blocks are inserted.
func TestPool_MissDoesNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector has pools forget at random")
	}
	c := New(1 << 20)
	n := uint64(0)
	miss := func() {
		n++
		b := c.Alloc(4096)
		c.Insert(Key{1, n}, b).Release()
	}
	for range 1000 {
		miss()
	}
	if got := testing.AllocsPerRun(1000, miss); got != 0 {
		t.Errorf("a miss allocates %v times", got)
	}
}
