package sstable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/cache"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// ingestedEntries are puts of distinct keys with number seq.
func ingestedEntries(n int, seq base.Seq) []entry {
	var list []entry
	for i := range n {
		list = append(list, entry{base.NewKey(fmt.Appendf(nil, "k%05d", i), seq, base.KindPut), bytes.Repeat([]byte{byte(i)}, i%50)})
	}
	return list
}

// TestIngested reads an ingested table in all ways. Its entries have the number that the
// manifest states, and the file does not change.
func TestIngested(t *testing.T) {
	testenv.SkipRace(t)
	const seq = 1<<40 + 77
	for _, o := range []WriterOptions{
		{BlockSize: 300, FilterBits: 10}, {BlockSize: 300, Codec: &SnappyCodec, IndexPartition: 200}, {BlockSize: 300, Codec: &ZstdCodec},
	} {
		o.Ingested = true
		b, info := writeFile(t, o, ingestedEntries(2000, 0))
		want := ingestedEntries(2000, seq)
		for _, cached := range []int64{0, 1 << 20} {
			r, err := Open(bytes.NewReader(b), ReaderOptions{
				Num: testNum, StoreID: testStore, Size: info.Size, Checksum: info.Checksum, Cache: cache.New(cached), Seq: seq,
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := r.Verify(context.Background()); err != nil {
					t.Fatal(err)
				}
				checkTable(t, r, want)
			}
			if p := r.Props(); p.MinSeq != seq || p.MaxSeq != seq || p.ingested != 1 {
				t.Errorf("properties: %+v", p)
			}
		}
		s, err := Salvage(context.Background(), bytes.NewReader(b), info.Size, SalvageOptions{Num: testNum, StoreID: testStore, Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for kv := s.First(); kv != nil; kv = s.Next() {
			if !sameEntry(kv, want[n]) {
				t.Fatalf("salvaged: %v, want %v", kv.InternalKey, want[n])
			}
			n++
		}
		if n != len(want) || s.Err() != nil || s.Close() != nil {
			t.Errorf("%d entries salvaged, %v", n, s.Err())
		}
		// Without the manifest their number is 0, so they are the oldest.
		r, err := openFile(b, info)
		if err != nil {
			t.Fatal(err)
		}
		checkTable(t, r, ingestedEntries(2000, 0))
	}
}

// TestIngested_Refused checks that entries with numbers, deletions and second versions can't
// be ingested.
func TestIngested_Refused(t *testing.T) {
	for _, list := range []string{"a#1,PUT=x", "a#0,DEL", "a#0,PUT=x b#3,PUT=y", "a#0,PUT a#0,DEL"} {
		f, err := vfs.NewMem().Create("t")
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(f, WriterOptions{Num: testNum, Ingested: true})
		for _, e := range parseEntries(t, list) {
			if err := w.Add(e.key, e.value); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Finish(); !errors.Is(err, errNumbered) {
			t.Errorf("%s: %v", list, err)
		}
	}
	for _, p := range []Properties{{ingested: 2}, {ingested: 1, MaxSeq: 1, Entries: 1, Keys: 1}, {ingested: 1, Entries: 2, Keys: 1}, {ingested: 1, Entries: 1, Keys: 1, Tombstones: 1}} {
		if _, err := decodeProperties(p.appendTo(nil)); !errors.Is(err, errPropsValue) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
