package bundle

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// benchBundle has seven runs, the last with this many tables, and keys that are
// there and others between them.
func benchBundle(tb testing.TB, tables int) (b *Bundle, present, absent [][]byte) {
	m := &model{}
	n := 20_000 + 100*tables
	for i := range n {
		present = append(present, fmt.Appendf(nil, "user%012d", i*2))
		absent = append(absent, fmt.Appendf(nil, "user%012d", i*2+1))
	}
	for level := range 6 {
		var some [][]byte
		for i := level; i < n; i += 8 << (6 - level) {
			some = append(some, present[i])
		}
		m.addRun(tb, level, 1+level, 16, some)
	}
	m.addRun(tb, 6, tables, 10, present)
	return mustOpen(tb, m.bytes(tb)), present, absent
}

func TestMayContain_AllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	b, present, absent := benchBundle(t, 5)
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		i++
		b.MayContain(present[i])
		b.MayContain(absent[i])
	}); n != 0 {
		t.Errorf("two questions allocate %v times", n)
	}
}
