package remote

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestStore_Once opens a store every five minutes for some days, publishes and closes it, as a timetable does with
// shale-remote ship --once. The bucket has as many objects at the end as after a day and a half, and each time costs some requests.
func TestStore_Once(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand rounds")
	}
	synctest.Test(t, func(t *testing.T) {
		fsys, b, model := vfs.NewMem(), remotetest.NewFake(NewMem()), map[string]string{}
		objects, most, sum, before := 0, 0, 0, 0
		count := func() (n int) {
			for range b.Bucket.List(t.Context(), "", "") {
				n++
			}
			return n
		}
		const rounds = 1000
		storeID := uint64(0)
		for round := range rounds {
			o := manual(fsys)
			o.Retain, o.Store.CompactionWorkers = 24*time.Hour, 1
			s, err := Open(t.Context(), "db", b, o)
			mustNil(t, err)
			if round%3 > 0 { // else nothing has changed
				put(t, s, model, "k", 5)
			}
			mustNil(t, s.Publish(t.Context()))
			storeID = s.id
			_, err = s.CollectDue(t.Context())
			mustNil(t, err)
			mustNil(t, s.Close())
			calls := b.Count("", "")
			n := calls - before
			before, sum = calls, sum+n
			if round > 400 {
				most = max(most, n)
			}
			if round == 400 {
				objects = count()
			}
			if now := count(); round > 400 && now > objects*5/4 {
				t.Fatalf("%d objects after %d rounds, %d after 400", now, round, objects)
			}
			time.Sleep(5 * time.Minute)
		}
		t.Logf("%d objects after %d rounds, %d after 400; %d calls a round, %d at most", count(), rounds, objects, sum/rounds, most)
		if sum/rounds > 250 || most > 3000 {
			t.Errorf("%d calls a round, %d at most", sum/rounds, most)
		}
		// Only a process that was not closed leaves a fence, which stays for ever.
		for info := range b.Bucket.List(t.Context(), object.SegmentFolder, "") {
			name, _ := object.ParseName(info.Name)
			seg, err := chain.ReadHead(t.Context(), b.Bucket, storeID, object.Position{Log: name.Num, Offset: name.Offset})
			if err == nil && seg.Kind == object.SegmentFence {
				t.Errorf("%s is a fence", info.Name)
			}
		}
		allThere(t, b, model)
	})
}

// TestStore_OnceClockAhead calls a store every five minutes for two hours while the clock is a year ahead. No more than two
// hours of the history go in an hour.
func TestStore_OnceClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, b, model := vfs.NewMem(), NewMem(), map[string]string{}
		call := func() (floor time.Time) {
			o := manual(fsys)
			o.Retain = 24 * time.Hour
			s, err := Open(t.Context(), "db", b, o)
			mustNil(t, err)
			put(t, s, model, "k", 5)
			mustNil(t, s.Publish(t.Context()))
			_, err = s.CollectDue(t.Context())
			mustNil(t, err)
			step, err := chain.ReadStep(t.Context(), b, s.id, max(s.publish.chain.State.Floor, 1))
			mustNil(t, err)
			mustNil(t, s.Close())
			return step.Written
		}
		var before time.Time
		for range 60 {
			before = call()
			time.Sleep(30 * time.Minute)
		}
		time.Sleep(365 * 24 * time.Hour)
		for i := range 24 {
			now := call()
			if gone, most := now.Sub(before), time.Duration(i/12+1)*3*time.Hour; gone > most { // two, and the gap up to the next state
				t.Fatalf("after %d minutes %v of the history are gone, at most %v should be", 5*i, gone, most)
			}
			time.Sleep(5 * time.Minute)
		}
		if now := call(); !now.After(before) {
			t.Error("nothing was collected")
		}
	})
}
