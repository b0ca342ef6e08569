package sstable

import (
	"bytes"
	"errors"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
)

// AppendFilter appends the filter as the file has it, whatever is in memory, to what dst has
// already.
func TestReader_AppendFilter(t *testing.T) {
	list := shapes()["many"]
	b, info := writeFile(t, WriterOptions{FilterBits: 20}, list)
	r, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	h := r.foot.filter
	want := b[h.offset : h.offset+int64(h.stored)]
	check := func(when string) {
		t.Helper()
		got, err := r.AppendFilter([]byte("before"), nil)
		if err != nil || string(got) != "before"+string(want) {
			t.Errorf("%s: AppendFilter gives %d bytes, %v; want %d", when, len(got), err, len(want)+6)
		}
	}
	check("resident")
	r.DropSecondUnit()
	check("without its second unit")
	r.DropFilter()
	check("dropped")

	without, info := writeFile(t, WriterOptions{}, list)
	r, err = openFile(without, info)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.AppendFilter([]byte("before"), nil); err != nil || string(got) != "before" {
		t.Errorf("without a filter: AppendFilter gives %q, %v", got, err)
	}
}

// A damaged filter is an error, and nothing is appended.
func TestReader_AppendFilter_Damaged(t *testing.T) {
	testenv.SkipRace(t)
	b, info := writeFile(t, WriterOptions{FilterBits: 10}, shapes()["many"])
	r, err := openFile(b, info)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.foot.filter.stored + blockTail {
		bad := bytes.Clone(b)
		bad[r.foot.filter.offset+int64(i)] ^= 0x10
		r, err := openFile(bad, info)
		if err != nil {
			t.Fatal(err)
		}
		var damage *base.CorruptionError
		got, err := r.AppendFilter([]byte("before"), nil)
		if string(got) != "before" || !errors.As(err, &damage) && !errors.Is(err, base.ErrFormatTooNew) {
			t.Fatalf("byte %d: AppendFilter gives %d bytes, %v", i, len(got), err)
		}
	}
}
