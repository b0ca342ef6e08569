package remote

import (
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// When flushes and compactions wait for room, the next step comes at once, and it brings several tables. The clock of this test
// only moves while all that there is to do waits for it, so what it shows are waits.
func TestEvict_StepsComeAtOnce(t *testing.T) {
	change := func(o *Options) {
		evicting(o)
		o.Publish = time.Minute
	}
	inTime(t, change, func(t *testing.T, s *Store, b *remotetest.Fake, _ *eventList) {
		model := make(map[string]string)
		begun := time.Now()
		fillRandom(t, s, model, 20_000)
		mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
		settleEvicted(t, s)
		steps, tables := int(s.Status().Step), b.Count("put", object.TableFolder)
		t.Logf("%v waited, %d steps for %d tables", time.Since(begun), steps, tables)
		if waited := time.Since(begun); waited > 10*time.Second || tables < 200 || steps > tables/3 {
			t.Errorf("%v waited, %d steps for %d tables", waited, steps, tables)
		}
		sameMap(t, "the store", contents(t, s.DB()), model)
	})
}
