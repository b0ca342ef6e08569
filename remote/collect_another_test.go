package remote

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// TestCollect_ByAnother has a writer that may not delete, for some days, and another process that collects now and then. The
// writer does not call the bucket away, nothing is kept for longer than it has to be, and all that is kept can be restored.
func TestCollect_ByAnother(t *testing.T) {
	inTime(t, func(o *Options) { o.Retain = 4 * time.Hour; o.Store.CompactionWorkers = 1 }, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		b.Refuse("delete", "")
		model, pinned := map[string]string{}, map[string]string(nil)
		for hour := range 48 {
			for range 6 {
				put(t, s, model, "k", 60)
				time.Sleep(10 * time.Minute)
			}
			if hour == 14 {
				_, err := s.Pin(t.Context(), "noon", PinOptions{})
				mustNil(t, err)
				pinned = contents(t, s.DB())
			}
			if hour%6 != 5 {
				continue
			}
			time.Sleep(time.Second / 2) // the writer raises the floor at the full hour, and has done so then
			// A table that is uploaded, and in no step yet.
			upload := object.TableName(s.epoch<<object.EpochShift + 1<<30)
			mustNil(t, PutObject(t.Context(), b.Bucket, upload, []byte("upload"), false))
			done, err := Collect(t.Context(), b.Bucket)
			mustNil(t, err)
			if _, err := b.Bucket.Stat(t.Context(), upload); err != nil {
				t.Errorf("the table of the next step: %v", err)
			}
			mustNil(t, b.Bucket.Delete(t.Context(), upload))
			report, err := Verify(t.Context(), b.Bucket, true)
			mustNil(t, err)
			if len(report.Findings) > 0 || report.First != max(done.Floor, 1) {
				t.Errorf("hour %d: %+v, %v", hour, done, report.Findings)
			}
			left := slices.DeleteFunc(report.Leftovers, func(i Info) bool { return strings.HasPrefix(i.Name, object.ProbeFolder) })
			if len(left) > 0 {
				t.Errorf("hour %d: left over are %v", hour, left)
			}
			// What is there is needed by a step that is kept. So the bucket is small if the oldest one is as old as it may be:
			// the writer raises the floor each hour.
			oldest, err := chain.ReadStep(t.Context(), b.Bucket, s.publish.chain.StoreID, max(1, done.Floor))
			mustNil(t, err)
			if age := time.Since(oldest.Written); age > s.opts.Retain+time.Hour+20*time.Minute {
				t.Errorf("hour %d: step %d is kept, which is %v old", hour, oldest.N, age)
			}
		}
		sameMap(t, "restored", restoredContents(t, b.Bucket), contents(t, s.DB()))
		sameMap(t, "the pin", restoredPin(t, b.Bucket, "noon"), pinned)
		if slices.Contains(events.kinds(), EventAway) || s.Status().Away != nil {
			t.Errorf("a bucket that refuses DELETEs is called away: %v", s.Status().Away)
		}
		mustNil(t, PutObject(t.Context(), b.Bucket, object.TableName(s.epoch<<object.EpochShift+1<<30), []byte("nobody's"), false))
		if _, err := s.Collect(t.Context()); !buckets.Refused(err) {
			t.Errorf("Collect of a writer that may not delete: %v", err)
		}
	})
}
