package server

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// DBSIZE is exact for few names, and right within a tenth for many, also if most entries of the store are overwritten, deleted,
// over, or no names at all.
func TestDBSize(t *testing.T) {
	testenv.SkipRace(t)
	const many = 3 * exactMost
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem(), Durability: shale.SyncManual, MemtableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newServer(&fake{Store: Alone(db, nil), db: db})
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := s.newClient()
	put := func(from, to int, ttl time.Duration) {
		t.Helper()
		for i := from; i < to; i += 1000 {
			b := new(shale.Batch)
			for k := i; k < min(to, i+1000); k++ {
				name := []byte(fmt.Sprintf("%x", uint64(k)*0x9e3779b97f4a7c15))
				if err := c.put(b, name, []byte("value"), expiry{ttl: ttl}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string, want, expiring int64, off float64) {
		t.Helper()
		k, err := c.size(db)
		if err != nil || math.Abs(float64(k.names-want)) > off*float64(want) || math.Abs(float64(k.expiring-expiring)) > off*float64(want) || k.exact != (off == 0) {
			t.Errorf("%s: %+v, %v, want %d of which %d expire", what, k, err, want, expiring)
		}
		var got int64
		if _, err := fmt.Sscanf(c.say("DBSIZE"), ":%d", &got); err != nil || math.Abs(float64(got-want)) > off*float64(want) {
			t.Errorf("%s: DBSIZE is %d, %v, want %d", what, got, err, want)
		}
	}
	put(0, exactMost, 0)
	check("as many as are counted", exactMost, 0, 0)
	put(exactMost, many, 0)
	check("many", many, 0, 0.1)
	put(0, many, 0)
	put(0, many/4, time.Hour)
	check("each written again, and a quarter with a time", many, many/4, 0.1)
	for i := many / 2; i < many; i++ {
		if err := db.Delete(appendName(nil, []byte(fmt.Sprintf("%x", uint64(i)*0x9e3779b97f4a7c15)))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many / 2 {
		if err := db.Put(fmt.Appendf([]byte{pieceSpace}, "%08d", i), []byte(strings.Repeat("x", 20))); err != nil {
			t.Fatal(err)
		}
	}
	check("half of them deleted, and as many pieces", many/2, many/4, 0.1)
	c.want(t, "FLUSHDB", "+OK")
	check("nothing", 0, 0, 0)
}
