package remote

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// TestStore_TablesVanish deletes tables and a sidecar from the bucket of an idle store, and cuts one, as a lifecycle rule or a
// person may do. Within an hour that is reported, with their names, and all is there again.
func TestStore_TablesVanish(t *testing.T) {
	inTime(t, nil, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		model := map[string]string{}
		for i := range 3 {
			put(t, s, model, strings.Repeat("x", i+1), 300)
			mustNil(t, s.DB().Flush(t.Context()))
		}
		put(t, s, model, "new", 300)
		mustNil(t, s.DB().Flush(t.Context()))
		time.Sleep(2 * time.Minute)
		for lives := range 2 { // it happens again, without a step in between
			var all []Info
			for info, err := range b.Bucket.List(t.Context(), object.TableFolder, "") {
				mustNil(t, err)
				all = append(all, info)
			}
			if len(all) < 2 {
				t.Fatalf("%v are too few", all)
			}
			for i, info := range all {
				if i == 0 {
					mustNil(t, PutObject(t.Context(), b.Bucket, info.Name, []byte("cut"), false))
				} else {
					mustNil(t, b.Bucket.Delete(t.Context(), info.Name))
				}
			}
			time.Sleep(time.Hour + time.Minute)
			e, now := events.last(EventBackground), s.Status()
			for _, info := range all {
				if e.Err == nil || now.Failing == nil || !strings.Contains(now.Failing.Error(), info.Name) || !strings.Contains(e.Err.Error(), info.Name) {
					t.Errorf("%s has vanished: %v, %v", info.Name, e, now.Failing)
				}
			}
			checkTables(t, b.Bucket, s)
			sameMap(t, "restored", restoredContents(t, b.Bucket), model)
			time.Sleep(time.Hour)
			if now := s.Status(); now.Failing != nil || now.Away != nil {
				t.Errorf("an hour later: %+v", now)
			}
			if got := events.kinds(); len(slices.DeleteFunc(got, func(k EventKind) bool { return k != EventBackground })) != lives+1 {
				t.Errorf("events: %v", got)
			}
		}
	})
}
