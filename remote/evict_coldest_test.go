package remote

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// Of a level the tables go that lookups have not read of late, also if others were made before them.
func TestEvict_ColdestFirst(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	o.Store.CompactionWorkers, o.Store.CacheSize = -1, -1
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	fillRandom(t, s, model, 1500)
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{})) // the first tables have the lowest keys
	mustNil(t, s.Publish(t.Context()))
	keys := slices.Sorted(maps.Keys(model))
	warm, cold := keys[:len(keys)/2-50], keys[len(keys)/2+50:] // the table in the middle is neither
	read := func(keys []string, n int) (gets int) {
		r := rand.New(rand.NewPCG(1, 2))
		gets, _ = b.During(func() {
			for range n {
				key := keys[r.IntN(len(keys))]
				if v, err := s.DB().Get([]byte(key)); err != nil || string(v) != model[key] {
					t.Fatalf("%s: %d bytes, %v", key, len(v), err)
				}
			}
		})
		return gets
	}
	if gets := read(warm, 1000); gets > 0 {
		t.Fatalf("%d GETs when all tables were local", gets)
	}
	fillRandom(t, s, model, 900) // takes the room of a third of them
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	testenv.WaitFor(t, "tables to go", func() bool { return localBytes(t, s.fs, "db") < testBudget*7/8+4096 })
	if gets := read(warm, 1000); gets > 0 {
		t.Errorf("1000 lookups in tables that were read before took %d GETs", gets)
	}
	if gets := read(cold, 1000); gets < 3 {
		t.Errorf("1000 lookups in tables that nobody had read took %d GETs: none of them has gone", gets)
	}
}
