package remote

import (
	"strings"
	"testing"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// A store that is larger than the disk of the machine which takes it over: only a part of its tables is fetched, those of the
// upper levels, and of the others the tails. The new writer has everything, and so has the one after it.
func TestTakeOver_LocalBytes(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	_, model := evictedStore(t, b, vfs.NewMem())
	disk := vfs.NewMem()
	o := manual(disk)
	evicting(o)
	o.Store.CompactionWorkers = -1
	s, err := TakeOver(t.Context(), b, "db", o)
	mustNil(t, err)
	t.Cleanup(func() { _ = s.Close() })
	if local := localBytes(t, disk, "db"); local > testBudget || local < testBudget/4 {
		t.Errorf("%d bytes are local, of %d that may", local, testBudget)
	}
	state, err := s.state()
	mustNil(t, err)
	deepest := 0
	for a := range placedTables(state.Version) {
		switch evicted := s.evicting.has(a.Table); {
		case !evicted && deepest > 0 && a.Level > deepest:
			t.Errorf("table %s of level %d is local, and one of level %d is not", a.Table.Num, a.Level, deepest)
		case evicted && deepest == 0:
			deepest = a.Level
		}
	}
	if deepest == 0 || state.Elsewhere == "" {
		t.Errorf("all tables came; others are in %q", state.Elsewhere)
	}
	sameMap(t, "taken over", contents(t, s.DB()), model)
	put(t, s, model, "later", 10)
	settleEvicted(t, s)
	mustNil(t, s.Close())
	sameMap(t, "opened again", contents(t, openStore(t, "db", b, o).DB()), model)
	sameMap(t, "a restore", restoredContents(t, b), model)
}

// A table that would stay in the bucket is not there. The store is not taken over without it.
func TestTakeOver_LocalBytesOfDamage(t *testing.T) {
	b, disk := NewMem(), vfs.NewMem()
	evictedStore(t, b, disk)
	inBucket := lacking(t, disk) // not any table: one that a compaction has made since the newest step is in no step
	name := object.TableName(uint64(inBucket[len(inBucket)-1].Num))
	mustNil(t, b.Delete(t.Context(), name))
	steps := len(remotetest.NamesOf(t, b, object.StepFolder))
	o := manual(vfs.NewMem())
	evicting(o)
	if _, err := TakeOver(t.Context(), b, "db", o); !object.IsDamage(err) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	if now := len(remotetest.NamesOf(t, b, object.StepFolder)); now != steps {
		t.Errorf("%d steps, there were %d: the store was claimed", now, steps)
	}
}
