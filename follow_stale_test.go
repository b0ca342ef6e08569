package shale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A reader advances now and then between the operations of a writer that overwrites all keys, flushes, and has groups
// refused, after which Resume brings memtables into tables before it begins another log. So the reader meets manifests whose
// tables have all of a log that they still name, and of which it has read a part. Lookups and scans agree all the same.
func TestAdvance_BesideRefusals(t *testing.T) {
	testenv.SkipRace(t)
	seed := testenv.Seed(t)
	advances := 0
	for life := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, life))
		r := newRefusing(t)
		closeTest(t, r.DB)
		mem := vfs.NewMem()
		disk := faultfs.New(mem, nil)
		r.opts.FS = disk
		r.DB = mustOpen(t, "db", r.opts)
		mustPut(t, r, "k0", "first")
		ro := *r.opts
		ro.FS, ro.ReadOnly, ro.Shipping.Gate = mem, true, nil
		reader := mustOpen(t, "db", &ro)
		seldom, over := 1+int(life)%20, false
		var turn sync.Mutex // the store writes from several goroutines
		disk.Inject(func(vfs.Op, string, int64) error {
			turn.Lock()
			defer turn.Unlock()
			if over || rnd.IntN(seldom) > 0 || t.Failed() { // it has not read all that the tables have now
				return nil
			}
			advances++
			if _, err := reader.Advance(context.Background()); err != nil {
				t.Errorf("Advance: %v", err)
			}
			agree(t, reader)
			return nil
		})
		for round := range 12 {
			for i := range 5 {
				mustPut(t, r, fmt.Sprintf("k%d", i), fmt.Sprint(round))
				mustPut(t, r, fmt.Sprintf("round%02d", round), fmt.Sprint(i))
			}
			switch round % 3 {
			case 0:
				mustFlush(t, r.DB)
			case 1:
				r.refuse(t, fmt.Errorf("round %d", round), "refused", "")
				if err := r.Resume(); err != nil {
					t.Error(err)
				}
			}
		}
		turn.Lock()
		over = true
		turn.Unlock()
		closeTest(t, reader)
		closeTest(t, r.DB)
	}
	if advances < 1000 {
		t.Errorf("only %d advances", advances)
	}
}

// agree checks that lookups of all kinds find what a scan shows. Requires: nobody advances the handle meanwhile.
func agree(t *testing.T, db *DB) {
	t.Helper()
	var keys [][]byte
	var values []string
	for e, err := range db.Scan(Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys, values = append(keys, bytes.Clone(e.Key)), append(values, string(e.Value))
	}
	check := func(call string, i int, v []byte, err error) {
		if err != nil || string(v) != values[i] {
			t.Errorf("at %d: %s(%s) = %q, %v; Scan has %q", db.commits.Visible(), call, keys[i], v, err, values[i])
		}
	}
	for i, key := range keys {
		v, err := db.Get(key)
		check("Get", i, v, err)
		err = db.ViewValue(key, func(view []byte) error { v = bytes.Clone(view); return nil })
		check("ViewValue", i, v, err)
	}
	if err := db.GetMany(keys, func(i int, v []byte, _ bool) error { check("GetMany", i, v, nil); return nil }); err != nil {
		t.Error(err)
	}
}

// An earlier copy of the newest log comes into its place. Nothing but the end of that log tells that.
func TestAdvance_OlderEndOfLog(t *testing.T) {
	for _, closed := range []bool{false, true} { // the reader has seen the seal of the log
		for _, before := range []int{0, 10, 3000} { // bytes of the write that the copy has; 0: it has none
			for _, lost := range []int{10, 100_000} { // bytes of the write that it lacks; the second takes several blocks
				mem := vfs.NewMem()
				opts := Options{FS: mem}
				db, err := Open("db", &opts)
				if err != nil {
					t.Fatal(err)
				}
				if before > 0 {
					mustPut(t, db, "a", strings.Repeat("a", before))
				}
				copyDir(t, mem, "db", "copy")
				mustPut(t, db, "b", strings.Repeat("b", lost))
				if closed {
					closeTest(t, db)
				}
				readOnly := opts
				readOnly.ReadOnly = true
				reader, err := Open("db", &readOnly)
				if err != nil {
					t.Fatal(err)
				}
				shown, err := reader.Advance(t.Context())
				if err != nil || shown == 0 {
					t.Fatalf("Advance = %d, %v", shown, err)
				}
				if err := errors.Join(mem.Rename("db", "was"), mem.Rename("copy", "db")); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if seq, err := reader.Advance(t.Context()); seq != shown || !errors.Is(err, ErrReplaced) {
						t.Errorf("closed %v, %d bytes and %d: Advance = %d, %v; want %d, ErrReplaced", closed, before, lost, seq, err, shown)
					}
				}
				if err := reader.Close(); err != nil {
					t.Error(err)
				}
				if !closed {
					db.Close() // its directory is gone
				}
			}
		}
	}
}
