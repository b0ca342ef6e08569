package shale

import (
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// The logs of a store have each sequence number once: as that of a change, or as that of an ingestion,
// with its least and greatest key. Nothing else of it is in a log, and Open passes over it.
func TestIngest_MarkInTheLog(t *testing.T) {
	o := small()
	o.FS, o.Shipping.HoldLogs = vfs.NewMem(), 1
	db := mustOpen(t, "db", o)
	marks := make(map[uint64]string)
	written := uint64(0)
	for round := range 3 {
		for i := range 5 {
			mustPut(t, db, fmt.Sprintf("p%d", i), fmt.Sprint(round))
			written++
		}
		from := 100 * round
		mustIngest(t, db, sortedKeys(from, from+150, fmt.Sprint(round)))
		written++
		marks[written] = fmt.Sprintf("k%06d k%06d", from, from+149)
		if round == 1 {
			closeTest(t, db)
			db = mustOpen(t, "db", o)
			wantGet(t, db, "k000249", "1", true)
		}
	}
	mustPut(t, db, "last", "1")
	written++
	p := ShippingOf(db).Position()
	if p.LastSeq != written {
		t.Errorf("position %+v after %d numbers", p, written)
	}

	next := written
	for num, end := base.FileNum(p.Log), p.Written; num > 0; {
		var seqs []uint64
		_, err := wal.ReadRange(o.FS, db.dir, num, db.storeID, 0, end, func(payload []byte, _ int64) error {
			seq, b, err := DecodeBatch(payload)
			if err != nil {
				return err
			}
			seqs = append(seqs, seq)
			least, greatest, ok := b.Ingested()
			if got := string(least) + " " + string(greatest); ok != (marks[seq] != "") || ok && got != marks[seq] {
				t.Errorf("number %d: mark %v of %q, want %q", seq, ok, got, marks[seq])
			}
			ops := 0
			for range b.Ops() {
				ops++
			}
			if b.Len() != 1 || ok == (ops == 1) {
				t.Errorf("number %d: a batch of %d with %d changes, mark %v", seq, b.Len(), ops, ok)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := len(seqs) - 1; i >= 0; i-- {
			if seqs[i] != next {
				t.Fatalf("log %s has %d where %d is missing", num, seqs[i], next)
			}
			next--
		}
		h, err := wal.ReadHeader(o.FS, db.dir, num, db.storeID, 0)
		if err != nil {
			t.Fatal(err)
		}
		num, end = h.Prev, h.PrevLen
	}
	if next != 0 {
		t.Errorf("numbers up to %d are in no log", next)
	}
	closeTest(t, db)
}
