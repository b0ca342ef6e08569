package remote

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/collect"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// collectedStore is a bucket with the life of one owner, which has written three logs and three tables.
func collectedStore(t *testing.T) (*modelWriter, Bucket) {
	t.Helper()
	b := NewMem()
	modelHistory(b, 3)
	return newModel(b, findOwner(b)).resume(b, "A"), b
}

// spareOf returns the tables and sidecars that c may delete.
func spareOf(t *testing.T, b Bucket, c *chain.Chain) []Info {
	t.Helper()
	spare, err := collect.SpareFiles(t.Context(), b, c, func(uint64) bool { return false })
	mustNil(t, err)
	return spare
}

// collectOnce chooses and deletes, one call after the other.
func collectOnce(ctx context.Context, b Bucket, c *chain.Chain, now time.Time, spare []Info) (Collected, error) {
	c.AtOnce = 1
	k, err := collect.Choose(ctx, b, c, spare, nil)
	if err != nil {
		return Collected{}, err
	}
	done, err := k.Delete(ctx, now)
	return done, err
}

// since says how long before a time steps were made.
func since(at time.Time) func(*object.Step) time.Duration {
	return func(s *object.Step) time.Duration { return at.Sub(s.Written) }
}

// TestCollect_LeavesNothingOver checks that everything goes that nobody needs, strays and the objects of stopped
// writers too, and nothing else.
func TestCollect_LeavesNothingOver(t *testing.T) {
	ctx := context.Background()
	a, b := collectedStore(t)
	for _, stray := range []string{object.TableName(99), object.FilterName(98), object.TableName(2<<object.EpochShift + 1), "holiday.jpg", "t/ff/holiday.jpg"} {
		mustNil(t, PutObject(ctx, b, stray, []byte("stray"), true))
	}
	putList(t, b, []*object.Segment{segmentAt(object.Position{Log: logOf(0, 7), Offset: 0}, 5000), fenceAt(object.Position{Log: logOf(0, 8), Offset: 0}, 1)})
	if !a.collect(late) {
		t.Fatal(a.m.broken)
	}
	want := []string{
		"holiday.jpg",
		object.StepName(4), object.StepName(5),
		object.StateName(4),
		object.TableName(2<<object.EpochShift + 1), // of a later owner
		"t/ff/holiday.jpg",
		object.SegmentName(logOf(0, 8), 0), // the fence
	}
	for t := range a.c.State.Tables.Version.Tables() {
		want = append(want, object.TableName(uint64(t.Num)))
	}
	last := a.c.State.Extents[0].Log
	want = append(want, remotetest.NamesOf(t, b, object.LogFolder(last))...)
	want = append(want, remotetest.NamesOf(t, b, object.LogFolder(last+1))...)
	slices.Sort(want)
	if got := remotetest.NamesOf(t, b, ""); !slices.Equal(got, want) {
		t.Errorf("left are\n%q, want\n%q", got, want)
	}
	_, err := readStore(b)
	mustNil(t, err)
}

// TestCollect_KeepsUploads checks that a table is kept that is uploaded for the next step.
func TestCollect_KeepsUploads(t *testing.T) {
	ctx := context.Background()
	a, b := collectedStore(t)
	a.upload = 1<<object.EpochShift + 5000
	mustNil(t, PutObject(ctx, b, object.TableName(a.upload), []byte("new"), true))
	if !a.delete(0, late) {
		t.Fatal(a.m.broken)
	}
	if _, err := b.Stat(ctx, object.TableName(a.upload)); err != nil {
		t.Errorf("the table of the next step: %v", err)
	}
}

// TestCollect_DamageDeletesNothing checks that nothing is deleted if a step or a pin can't be read.
func TestCollect_DamageDeletesNothing(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{object.StepName(4), object.StateName(3), "p/daily.0000000000000001"} {
		a, b := collectedStore(t)
		c, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 3)
		mustNil(t, err)
		mustNil(t, c.PutState(ctx, b))
		if !a.step(&object.Step{Floor: 3, LastTableSeq: a.c.Step.LastTableSeq}) {
			t.Fatal(a.m.broken)
		}
		mustNil(t, PutObject(ctx, b, name, []byte("damage"), false))
		before := remotetest.NamesOf(t, b, "")
		done, err := collectOnce(ctx, b, a.c, late, spareOf(t, b, a.c))
		if err == nil {
			t.Errorf("with %s damaged: %+v", name, done)
		}
		if after := remotetest.NamesOf(t, b, ""); !slices.Equal(before, after) {
			t.Errorf("with %s damaged, left are\n%q of\n%q", name, after, before)
		}
	}
}

// TestChooseFloor checks which step everything since a time begins with.
func TestChooseFloor(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	c := beginChain(t, b)
	for n := range 5 {
		s := addTable(10)
		s.Edit, s.LastTableSeq, s.Written = nil, 0, remotetest.ExampleTime.Add(time.Duration(n+2)*time.Minute)
		publish(t, c, b, s)
		if n%2 == 0 {
			mustNil(t, c.PutState(ctx, b))
			mustNil(t, c.PutState(ctx, b)) // an earlier attempt has succeeded
		}
	}
	for minutes, want := range []uint64{0, 0, 2, 2, 4, 4, 6, 6} {
		got, _, err := collect.ChooseFloor(ctx, b, c, 0, since(remotetest.ExampleTime.Add(time.Duration(minutes)*time.Minute)))
		if err != nil || got != want {
			t.Errorf("since minute %d: step %d, %v; want %d", minutes, got, err, want)
		}
	}
	publish(t, c, b, &object.Step{Written: remotetest.ExampleTime, Floor: 4})
	if got, _, err := collect.ChooseFloor(ctx, b, c, 0, since(remotetest.ExampleTime)); err != nil || got != 4 {
		t.Errorf("the floor would sink to %d, %v", got, err)
	}
}

// TestPin_Withdrawn checks that a pin below the floor is not left behind, nor an expired one renewed.
func TestPin_Withdrawn(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	own := fiveSteps(t, b)
	reader, err := chain.LoadChain(ctx, b, remotetest.ExampleStore, 5)
	mustNil(t, err)
	o := chain.PinOptions{Lasts: time.Hour, Now: func() time.Time { return remotetest.ExampleTime }}
	p, err := reader.Pin(ctx, b, "session", o)
	mustNil(t, err)
	mustNil(t, own.PutState(ctx, b))
	publish(t, own, b, &object.Step{Written: remotetest.ExampleTime, Floor: 6})
	if p, err := reader.Pin(ctx, b, "other", o); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("a state below the floor: %+v, %v", p, err)
	}
	if next, err := chain.RenewPin(ctx, b, p, time.Hour, remotetest.ExampleTime.Add(time.Hour)); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("a pin that has expired: %+v, %v", next, err)
	}
	next, err := chain.RenewPin(ctx, b, p, time.Hour, remotetest.ExampleTime.Add(time.Hour-1))
	mustNil(t, err)
	mustNil(t, chain.Unpin(ctx, b, next.Label))
	if gone, err := chain.RenewPin(ctx, b, next, time.Hour, remotetest.ExampleTime); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("a pin that was removed: %+v, %v", gone, err)
	}
	if names := remotetest.NamesOf(t, b, object.PinFolder); !slices.Equal(names, []string{p.Name()}) {
		t.Errorf("left are the pins %q", names)
	}
}
