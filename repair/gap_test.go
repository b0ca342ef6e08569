package repair

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A gap in what a log has in common with tables costs nothing; unless the tables
// are damaged too: then what the log has in front of the gap is old.
func TestRun_GapInWhatIsFlushed(t *testing.T) {
	seed := testenv.Seed(t)
	r := rand.New(rand.NewPCG(seed, 9))
	const log = "000002.wal"
	var b *built
	var tables []string
	for b == nil || b.files[log] == "" || tables == nil { // what is left of the log was too much to be kept in memory
		b, tables = build(t, "half flushed", r.Uint64()), nil
		for name := range b.files {
			if strings.HasSuffix(name, ".sst") {
				tables = append(tables, name)
			}
		}
	}
	size := len(strings.TrimRight(b.files[log], "\x00"))
	outcomes := make(map[string]int)
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		d := b.flip(log, 4096+r.IntN((size-4096)/2), 1)
		table := tables[r.IntN(len(tables))]
		outcome, err := b.try(both(d, b.flip(table, r.IntN(len(b.files[table])*2/3), 1)))
		if err != nil {
			t.Fatalf("%v and %s: %v", d, table, err)
		}
		outcomes[outcome]++
	}
	t.Logf("seed %d: %s", seed, fmt.Sprint(outcomes))
	if outcomes["some keys lost"] == 0 && !testing.Short() {
		t.Errorf("no gap of the log was harmless: %v", outcomes)
	}
}
