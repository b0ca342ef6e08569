package localdir

import (
	"errors"
	"reflect"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestNotes_EveryBitCounts changes each bit of the notes.
func TestNotes_EveryBitCounts(t *testing.T) {
	for _, tried := range [][]uint64{nil, {5}, {5, 1 << 63, 6}} {
		everyBitCounts(t, tried)
	}
}

func everyBitCounts(t *testing.T, tried []uint64) {
	want := Record{StoreID: 1, Step: 7, Writer: 2, Before: 6, BeforeWriter: 3, Shipped: object.Position{Log: 1<<object.EpochShift + 4, Offset: 8192}, LastSeq: 99, Epoch: 1, Restored: true, Tried: tried}
	data := want.encode()
	if got, err := decodeNotes(data); err != nil || !reflect.DeepEqual(*got, want) {
		t.Fatalf("decodeNotes = %+v, %v; want %+v", got, err, want)
	}
	for bit := range 8 * len(data) {
		var damage *shale.CorruptionError
		if _, err := decodeNotes(remotetest.Flipped(data, bit)); !errors.As(err, &damage) && !errors.Is(err, shale.ErrFormatTooNew) {
			t.Fatalf("bit %d is wrong: %v", bit, err)
		}
	}
	for n := range data {
		if _, err := decodeNotes(data[:n]); err == nil {
			t.Fatalf("the first %d bytes are notes", n)
		}
	}
}

// TestNotes_PowerCuts cuts the power at each operation of a write. The notes are the old or the new ones.
func TestNotes_PowerCuts(t *testing.T) {
	for op := int64(1); ; op++ {
		m := vfs.NewMem()
		mustNil(t, m.MkdirAll("db"))
		before, after := Record{StoreID: 1, Step: 7, Epoch: 1}, Record{StoreID: 1, Step: 8, Epoch: 1}
		mustNil(t, WriteRecord(m, "db", &before))
		var crashed []*vfs.Mem
		begun := m.Ops()
		m.OnOp(func(vfs.Op, string) {
			if m.Ops() == begun+op {
				for seed := range uint64(8) {
					crashed = append(crashed, m.Crash(vfs.CrashConfig{Seed: seed}))
				}
			}
		})
		mustNil(t, WriteRecord(m, "db", &after))
		for _, c := range crashed {
			if got, err := ReadRecord(c, "db"); err != nil || !reflect.DeepEqual(*got, before) && !reflect.DeepEqual(*got, after) {
				t.Fatalf("after a power cut at operation %d: %+v, %v", op, got, err)
			}
		}
		if len(crashed) == 0 {
			if op < 4 {
				t.Fatalf("only %d operations", op-1)
			}
			return
		}
		if got, err := ReadRecord(m, "db"); err != nil || !reflect.DeepEqual(*got, after) {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}
