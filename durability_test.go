package shale

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A batch with an unknown durability is refused, and writes nothing: it would be
// acknowledged, and gone after a power cut. The store takes other writes.
func TestBatch_UnknownDurability(t *testing.T) {
	for _, d := range []Durability{77, -1, SyncManual + 1} {
		mem := vfs.NewMem()
		db := openTest(t, &Options{FS: mem, MemtableSize: 64 << 10})
		var b Batch
		b.SetDurability(d)
		for range 2 {
			if err := b.Put([]byte("unknown"), nil); err != nil {
				t.Fatal(err)
			}
			if err := db.Write(t.Context(), &b); err == nil || !strings.Contains(err.Error(), fmt.Sprint(int(d))) || db.Err() != nil {
				t.Errorf("Write with durability %d: %v, want an error that names it", d, err)
			}
		}
		if has, err := db.Has([]byte("unknown")); has || err != nil {
			t.Errorf("Has = %v, %v after a batch that was refused", has, err)
		}
		b.SetDurability(SyncEach)
		if err := db.Write(t.Context(), &b); err != nil {
			t.Errorf("Write after SetDurability(SyncEach): %v", err)
		}
		b.SetDurability(d)
		b.Reset()
		if err := errors.Join(b.Put([]byte("plain"), nil), db.Write(t.Context(), &b)); err != nil {
			t.Errorf("Write after Reset: %v", err)
		}
		crashed := openTest(t, &Options{FS: mem.Crash(vfs.CrashConfig{}), MemtableSize: 64 << 10})
		for _, k := range []string{"unknown", "plain"} {
			if has, err := crashed.Has([]byte(k)); !has || err != nil {
				t.Errorf("%s after a power cut: %v, %v", k, has, err)
			}
		}
	}
}

// In every store, a batch with a durability of its own is as durable as in a store
// that was opened with that: at once, after SyncEvery, or when Sync says so.
func TestBatch_OwnDurability(t *testing.T) {
	for _, store := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
		for _, own := range []Durability{SyncEach, SyncPeriodic, SyncManual} {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewMem()
				db := openTest(t, &Options{FS: mem, MemtableSize: 64 << 10, Durability: store, SyncEvery: time.Second})
				var b Batch
				b.SetDurability(own)
				for round := range 3 {
					key := fmt.Appendf(nil, "k%d", round)
					b.Reset()
					b.SetDurability(own)
					if err := errors.Join(b.Put(key, key), db.Write(t.Context(), &b)); err != nil {
						t.Fatal(err)
					}
					if own == SyncPeriodic {
						time.Sleep(time.Second)
						synctest.Wait()
					}
					crashed := openTest(t, &Options{FS: mem.Crash(vfs.CrashConfig{}), MemtableSize: 64 << 10})
					has, err := crashed.Has(key)
					if err != nil || !has && own != SyncManual {
						t.Errorf("round %d, store of %d, batch of %d: after a power cut Has = %v, %v", round, store, own, has, err)
					}
				}
			})
		}
	}
}
