package remote

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
)

// TestExplore_LosesNothing explores some scenarios without what keeps the number of states small: no read happens at once,
// late calls that change nothing happen too, and actors that have got other answers are never one. What the bucket has on the
// way, and what is there at the end, must be the same.
func TestExplore_LosesNothing(t *testing.T) {
	patience := max(testenv.Long(t), 20*time.Second)
	collects := ownerPart(func(a *modelWriter) { a.collect(noPins) })
	for _, sc := range []*scenario{
		{name: "claims", parts: []part{claimsPart("A", 21), claimsPart("B", 22)}},
		{name: "ships, a fault", faults: 1, parts: []part{
			ownerPart(func(a *modelWriter) { a.ships(object.SegmentData, object.SegmentSeal) }), ownerPart(func(a *modelWriter) { a.ship(object.SegmentData) }),
		}},
		{name: "collects while a step is pinned", parts: []part{collects, readerPart(func(r *modelReader) { r.pin(1, 0) })}},
		{name: "claims, a fault", faults: 1, parts: []part{claimsPart("A", 21), claimsPart("B", 22)}},
		{name: "a successor", parts: []part{
			ownerPart(func(a *modelWriter) { _ = a.ship(object.SegmentSeal) && a.publish(0) }), successorPart(func(a *modelWriter) { a.publish(0) }),
		}},
	} {
		t.Run(sc.name, func(t *testing.T) {
			sc.prepare = func(b Bucket) { modelHistory(b, 1) }
			e := newExploration(sc, 1)
			reduced, err := e.explore(patience)
			mustNil(t, err)
			whole := *sc
			whole.plain = true
			w := newExploration(&whole, 1)
			all, err := w.explore(patience)
			mustNil(t, err)
			t.Logf("reduced: %v", reduced)
			t.Logf("in full: %v", all)
			if all.switches < anySwitches || reduced.switches < anySwitches {
				t.Skip("not all orders were followed in time")
			}
			if !maps.Equal(e.ends, w.ends) || len(e.ends) == 0 {
				t.Errorf("%d ways to end, want %d", len(e.ends), len(w.ends))
			}
			if got, want := slices.Sorted(maps.Keys(e.stores.contents)), slices.Sorted(maps.Keys(w.stores.contents)); !slices.Equal(got, want) {
				t.Errorf("the bucket has %d contents on the way, want %d", len(got), len(want))
			}
		})
	}
}
