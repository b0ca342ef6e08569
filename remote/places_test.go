package remote

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// Places counts each table once, in its place, and PlacesIn says the same from outside while the store is open and when it is
// closed.
func TestPlaces(t *testing.T) {
	b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
	evicting(o)
	o.Store.CompactionWorkers = -1
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	if levels, err := s.Places(); err != nil || len(levels) != 0 {
		t.Errorf("an empty store: %+v, %v", levels, err)
	}
	sums := func() (local, both, bucket TableSum) {
		t.Helper()
		levels, err := s.Places()
		mustNil(t, err)
		for _, l := range levels {
			for to, from := range map[*TableSum]TableSum{&local: l.Local, &both: l.Both, &bucket: l.Bucket} {
				to.Tables, to.Bytes = to.Tables+from.Tables, to.Bytes+from.Bytes
			}
		}
		return local, both, bucket
	}
	fillRandom(t, s, model, 3000)
	settleEvicted(t, s)
	testenv.WaitFor(t, "the room to be made", func() bool {
		local, both, bucket := sums()
		return local.Tables == 0 && both.Tables > 0 && bucket.Tables > 0 && both.Bytes <= testBudget*7/8
	})
	fillRandom(t, s, model, 100)
	mustNil(t, s.DB().Flush(t.Context()))
	local, both, bucket := sums()
	tables := s.DB().Inspect().Tables()
	size := int64(0)
	for _, table := range tables {
		size += table.Size
	}
	if n := local.Tables + both.Tables + bucket.Tables; local.Tables == 0 || n != len(tables) || local.Bytes+both.Bytes+bucket.Bytes != size {
		t.Errorf("local %+v, both %+v, bucket %+v, of %d tables with %d bytes", local, both, bucket, len(tables), size)
	}
	var want []LevelPlaces
	var err error
	outside := func() []LevelPlaces {
		t.Helper()
		got, err := PlacesIn(t.Context(), o.Store.FS, "db", b)
		mustNil(t, err)
		return got
	}
	testenv.WaitFor(t, "both to say the same", func() bool { // the new table takes the room of others
		got := outside()
		want, err = s.Places()
		return err == nil && reflect.DeepEqual(got, want)
	})
	s.stop()
	s.background.Wait()
	want, err = s.Places()
	mustNil(t, errors.Join(err, s.Close()))
	if got := outside(); !reflect.DeepEqual(got, want) {
		t.Errorf("from outside: %+v, want %+v", got, want)
	}
	if _, err := s.Places(); err == nil {
		t.Error("a closed store has places")
	}
	removeFiles(t, o.Store.FS, "db", func() bool { return true })
	if _, err := PlacesIn(t.Context(), o.Store.FS, "db", b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
}

// A table that is nowhere is an error, and so is the bucket of another store.
func TestPlacesIn_Errors(t *testing.T) {
	b, o := NewMem(), manual(vfs.NewMem())
	model := make(map[string]string)
	s := openStore(t, "db", b, o)
	put(t, s, model, "a", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	other := openStore(t, "other", NewMem(), o)
	mustNil(t, other.Close())
	if _, err := PlacesIn(t.Context(), o.Store.FS, "other", b); !errors.Is(err, ErrOtherStore) {
		t.Errorf("with the bucket of another store: %v", err)
	}
	mustNil(t, s.Close())
	names, err := o.Store.FS.List("db")
	mustNil(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			mustNil(t, o.Store.FS.Remove(filepath.Join("db", name)))
		}
	}
	if _, err := PlacesIn(t.Context(), o.Store.FS, "db", b); !errors.Is(err, errNowhere) || !strings.Contains(err.Error(), ".sst") {
		t.Errorf("without its table: %v", err)
	}
}
