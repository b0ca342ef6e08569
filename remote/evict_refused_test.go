package remote

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// What a store some of whose tables are only in its bucket can't do, and what there is instead.

// A pin keeps a state of a store whose tables are in the bucket: the store goes on, and everything else is collected. A reader at
// the pin shows the state without a copy of it, and a restore makes a directory of it. A checkpoint would need all tables, and
// says so.
func TestEvict_Pin(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	o := manual(vfs.NewMem())
	evicting(o)
	o.Retain = 1
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	grow(t, s, model, 5000)
	put(t, s, model, "news", 10)
	_, err := s.Pin(t.Context(), "kept", PinOptions{})
	mustNil(t, err)
	if err := s.DB().Checkpoint("copy"); !errors.Is(err, shale.ErrElsewhere) || !strings.Contains(err.Error(), "Store.Pin") {
		t.Errorf("a checkpoint: %v", err)
	}
	mustNil(t, s.DB().DeleteRange(nil, nil))
	mustNil(t, s.DB().Compact(t.Context(), shale.Range{}))
	for range 3 {
		mustNil(t, s.DB().Put([]byte("a"), []byte("b")))
		settleEvicted(t, s)
		_, err := s.Collect(t.Context())
		mustNil(t, err)
	}
	sameMap(t, "the store", contents(t, s.DB()), map[string]string{"a": "b"})
	gets, _ := b.During(func() {
		r := openTestReader(t, b, ReaderOptions{Pin: "kept"})
		sameMap(t, "a reader at the pin", contents(t, r), model)
	})
	t.Logf("%d GETs to show %d keys", gets, len(model))
	sameMap(t, "a restore of the pin", restoredPin(t, b, "kept"), model)
}

// A member of a group needs all of its tables: its snapshots are checkpoints.
func TestEvict_GroupRefused(t *testing.T) {
	o := manual(vfs.NewMem())
	evicting(o)
	o.Store.Shipping.Clock = time.Now
	if _, err := Open(t.Context(), "db", NewMem(), o); err == nil || !strings.Contains(err.Error(), "LocalBytes") || !strings.Contains(err.Error(), "group's member") {
		t.Error(err)
	}
	o.LocalBytes = 0
	openStore(t, "db", NewMem(), o)
}
