package remote

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

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
		Note: func(*object.Step, uint64) error { return nil },
	}
}

// anchorSegment returns the segment that the owner appends after fence: it says that its first log is log.
// lastSeq is the last sequence number before the log.
func anchorSegment(c *chain.Chain, log, lastSeq uint64) *object.Segment {
	return &object.Segment{
		StoreID: c.StoreID, Log: object.AnchorOf(c.Epoch).Log, FirstSeq: lastSeq + 1, LastSeq: lastSeq, Written: c.Now(),
		Next: log, Kind: object.SegmentSeal,
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
