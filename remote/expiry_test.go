package remote

import (
	"testing"
	"time"

	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// What the store has taken for expired, and may have dropped with all that it hides, is over for those who read the
// bucket, whatever their clocks say.
func TestExpiry_Clock(t *testing.T) {
	b := NewMem()
	o := manual(vfs.NewMem())
	s := openStore(t, "db", b, o)
	var readers []*Reader
	for i, key := range []string{"a", "b", "c"} {
		mustNil(t, s.DB().PutTTL([]byte(key), []byte("v"), time.Millisecond))
		time.Sleep(3 * time.Millisecond)
		mustNil(t, s.DB().Flush(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		state, err := manifest.Load(o.Store.FS, "db")
		mustNil(t, err)
		if state.Clock == 0 {
			t.Fatal("nothing was taken for expired: the test shows nothing")
		}
		readers = append(readers, openTestReader(t, b, ReaderOptions{}))
		for j, r := range readers {
			mustNil(t, r.Refresh(t.Context()))
			if own, err := manifest.Load(r.follow.mem, followDir); err != nil || own.Clock != state.Clock {
				t.Errorf("step %d: the clock of reader %d is %d, %v, that of the store %d", i, j, own.Clock, err, state.Clock)
			}
		}
		restored := vfs.NewMem()
		_, err = Restore(t.Context(), b, "restored", At{}, &RestoreOptions{FS: restored})
		mustNil(t, err)
		if own, err := manifest.Load(restored, "restored"); err != nil || own.Clock != state.Clock {
			t.Errorf("step %d: the clock of the restored store is %d, %v, that of the store %d", i, own.Clock, err, state.Clock)
		}
	}
	report, err := Verify(t.Context(), b, true)
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("Verify: %v, %v", report.Findings, err)
	}
}
