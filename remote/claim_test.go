package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// claimAs claims the store of the tests.
func claimAs(t testing.TB, b Bucket, writer uint64) *chain.Chain {
	t.Helper()
	c, err := chain.Claim(context.Background(), b, claimantOf(writer))
	mustNil(t, err)
	return c
}

func claimantOf(writer uint64) chain.Claimant {
	return chain.Claimant{
		StoreID: remotetest.ExampleStore, Writer: writer, Now: func() time.Time { return remotetest.ExampleTime },
		Note: func(*Step, uint64) error { return nil },
	}
}

func TestClaim_EpochsAscend(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	for i, least := range []uint64{0, 0, 7, 3, 0} {
		var noted []string
		w := claimantOf(uint64(100 + i))
		w.Least = least
		w.Note = func(newest *Step, epoch uint64) error {
			noted = append(noted, fmt.Sprint(newest == nil || newest.N == uint64(i), epoch))
			return nil
		}
		c, err := chain.Claim(ctx, b, w)
		mustNil(t, err)
		want := []uint64{1, 2, 7, 8, 9}[i]
		if c.Epoch != want || c.Step.Epoch != want || c.N() != uint64(i+1) || c.Step.Writer != w.Writer || c.Step.Kind != StepClaim {
			t.Errorf("claim %d: epoch %d, step %+v", i, c.Epoch, c.Step)
		}
		if !slices.Equal(noted, []string{fmt.Sprint(true, want)}) {
			t.Errorf("claim %d: noted %v", i, noted)
		}
	}
	w := claimantOf(5)
	w.Least = MaxEpoch
	_, err := chain.Claim(ctx, b, w)
	mustNil(t, err)
	if c, err := chain.Claim(ctx, b, claimantOf(6)); err == nil {
		t.Errorf("after the last epoch: %+v", c.Step)
	}
}

// TestClaim_KeepsWhatTheStoreHas checks that a claim changes nothing but the owner.
func TestClaim_KeepsWhatTheStoreHas(t *testing.T) {
	b := NewMem()
	own := fiveSteps(t, b)
	publish(t, own, b, &Step{
		Written: remotetest.ExampleTime, LastTableSeq: 5, Extents: []Extent{{Log: 1<<EpochShift + 1, Length: 5000}},
	})
	c := claimAs(t, b, 5)
	if got, want := c.Step, own.Step; got.LastTableSeq != 5 || got.Floor != 3 || !slices.Equal(got.Extents, want.Extents) {
		t.Errorf("the claim is %+v after %+v", got, want)
	}
	if !slices.Equal(tablesOf(c.State), tablesOf(own.State)) {
		t.Errorf("tables %v, want %v", tablesOf(c.State), tablesOf(own.State))
	}
}

// TestClaim_Refused checks that a directory that must not go on puts no claim.
func TestClaim_Refused(t *testing.T) {
	b := NewMem()
	fiveSteps(t, b)
	no := errors.New("this is a copy")
	w := claimantOf(5)
	w.Note = func(*Step, uint64) error { return no }
	if _, err := chain.Claim(context.Background(), b, w); !errors.Is(err, no) {
		t.Errorf("refused: %v", err)
	}
	if n, err := chain.NewestStep(context.Background(), b, 0); err != nil || n != 5 {
		t.Errorf("the newest step is %d, %v", n, err)
	}
}

// TestClaim_LostAnswer checks that a claim is known again whose answer was lost.
func TestClaim_LostAnswer(t *testing.T) {
	mem := NewMem()
	fiveSteps(t, mem)
	lost := &remotetest.Failing{Bucket: mem}
	w := claimantOf(5)
	w.Note = func(*Step, uint64) error {
		lost.Plan = []remotetest.Failure{{Err: remotetest.ErrPasses, After: true}}
		return nil
	}
	c, err := chain.Claim(context.Background(), buckets.Retrying(lost), w)
	if err != nil || c.N() != 6 || c.Epoch != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

// anchorSegment returns the segment that the owner appends after fence: it says that its first log is log.
// lastSeq is the last sequence number before the log.
func anchorSegment(c *chain.Chain, log, lastSeq uint64) *Segment {
	return &Segment{
		StoreID: c.StoreID, Log: object.AnchorOf(c.Epoch).Log, FirstSeq: lastSeq + 1, LastSeq: lastSeq, Written: c.Now(),
		Next: log, Kind: SegmentSeal,
	}
}

// TestFence_EndsTheList fences the writers of a list that is empty, that goes on, and that was fenced before.
func TestFence_EndsTheList(t *testing.T) {
	ctx := context.Background()
	list, _ := theList()
	for n := range len(list) + 1 {
		b := NewMem()
		old := beginChain(t, b)
		putList(t, b, list[:n])
		old.Epoch = 3 // the list is of three epochs
		at := object.RootPosition
		if n > 0 {
			at = object.AfterSegment(list[n-1])
		}
		w := claimantOf(5)
		w.Least = 4
		c, err := chain.Claim(ctx, b, w)
		mustNil(t, err)
		for range 2 { // the second time it was fenced before
			got, err := c.Fence(ctx, b, object.Position{})
			if err != nil || got != at {
				t.Errorf("%d segments end at %v, %v; want %v", n, got, err, at)
			}
		}
		s, err := chain.ReadSegment(ctx, b, remotetest.ExampleStore, at)
		if err != nil || s.Kind != SegmentFence || object.AfterSegment(s) != object.AnchorOf(4) {
			t.Errorf("%d segments: behind them is %+v, %v", n, s, err)
		}
		anchor := anchorSegment(c, logOf(4, 9), 77)
		there, err := chain.PutSegment(ctx, b, anchor)
		if err != nil || there != anchor || object.AfterSegment(there) != (object.Position{Log: logOf(4, 9)}) {
			t.Errorf("%d segments: the anchor %+v, %v", n, there, err)
		}
	}
}

func TestFence_FirstOwnerHasNobodyToFence(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	c := claimAs(t, b, 5)
	if at, err := c.Fence(ctx, b, object.Position{}); err != nil || at != object.RootPosition {
		t.Errorf("%v, %v", at, err)
	}
	putList(t, b, []*Segment{anchorSegment(c, logOf(1, 1), 0)})
	if got, err := walked(t, b, object.RootPosition); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestFence_Superseded checks that an owner that comes late leaves the list of its successor alone.
func TestFence_Superseded(t *testing.T) {
	ctx := context.Background()
	b := NewMem()
	late := claimAs(t, b, 5)
	next := claimAs(t, b, 6)
	_, err := next.Fence(ctx, b, object.Position{})
	mustNil(t, err)
	before, err := walked(t, b, object.RootPosition)
	mustNil(t, err)
	if at, err := late.Fence(ctx, b, object.Position{}); !errors.Is(err, ErrFenced) {
		t.Errorf("an owner that was replaced fences at %v, %v", at, err)
	}
	if after, err := walked(t, b, object.RootPosition); err != nil || !slices.Equal(before, after) {
		t.Errorf("the list was %v and is %v, %v", before, after, err)
	}
	if _, err := chain.PutSegment(ctx, b, anchorSegment(late, logOf(1, 1), 0)); !errors.Is(err, ErrFenced) {
		t.Errorf("its anchor: %v", err)
	}
}
