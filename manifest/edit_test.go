package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/spans"
)

// fullEdit has every field set, but Sessions.
func fullEdit() *Edit {
	deletes, _ := spans.Join([]spans.Fragment{
		spans.NewFragment([]byte("c"), []byte("d"), []base.Seq{900, 2}), spans.NewFragment([]byte("e\x00"), nil, []base.Seq{1 << 20}),
	})
	return &Edit{
		NextFileNum: 300,
		LastSeq:     1 << 20,
		MinLog:      5,
		NewLog:      299,
		SealedLog:   &SealedLog{Num: 5, Length: 70000, LastSeq: 999},
		Removed:     []Removed{{Level: 0, Num: 12}, {Level: 1, Num: 7}},
		Added: []Added{{Level: 1, Run: 3, Table: &Table{
			Num: 13, Size: 4096, Checksum: 0xdeadbeef, Smallest: []byte("a"), Largest: []byte("b\x00"), MinSeq: 2, MaxSeq: 900,
			Entries: 100, Tombstones: 5, Keys: 95, RawKeyBytes: 800, RawValueBytes: 3000, FilterBytes: 192, FilterBits: 9.5,
			Facts:   Facts{Expiring: 3, Expiry: &[9]int64{300, 300, 300, 400, 400, 400, 400, 400, 400}},
			Sidecar: &Sidecar{Num: 14, Size: 357, Checksum: 0xcafef00d, FilterBytes: 288, FilterBits: 20},
		}}},
		Sidecars:  []SidecarChange{{Level: 2, Num: 9, Sidecar: &Sidecar{Num: 15, Size: 229, Checksum: 0xfeedbeef, FilterBytes: 160, FilterBits: 12.5}}},
		Finished:  []Finished{{Lower: []byte("a"), Upper: []byte("b"), Seq: 7}, {Lower: []byte{}, Seq: 1}},
		Spans:     deletes,
		Clock:     300,
		Elsewhere: "bucket",
	}
}

// goldenEdit is fullEdit on disk, field by field as in docs/FORMAT.md.
const goldenEdit = "" +
	"02 02 ac02" + // next file number 300
	"04 03 808040" + // last sequence number 1<<20
	"06 01 05" + // oldest log
	"08 02 ab02" + // new log 299
	"0a 06 05 f0a204 e707" + // sealed log 5, 70000 bytes, up to 999
	"0c 02 00 0c" + // level 0 loses 12
	"0c 02 01 07" + // level 1 loses 7
	"0e 22 01 03 0d 8020 efbeadde 01 61 02 6200 02 8407 64 05 5f a006 b817 c001 0000000000002340" +
	"0f 13 01 0d 0e e502 0df0feca a002 0000000000003440" + // table 13 of level 1 has its filter in file 14
	"0f 13 02 09 0f e501 efbeedfe a001 0000000000002940" + // and table 9 of level 2, which is there already, in 15
	"13 19 010d 030103 0512 ac02 ac02 ac02 9003 9003 9003 9003 9003 9003" + // 3 entries of table 13 expire
	"15 02 ac02" + // the clock is at 300
	"14 06 6275636b6574" + // tables may be in the "bucket"
	"12 06 0161 010162 07" + "12 03 00 00 01" + // range deletes from a to b are finished up to 7, and all up to 1
	"10 0a 0163 010164 02 8407 8207" + "10 08 026500 00 01 808040" // from c to d by 900 and 2, from e\x00 on by 1<<20

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits []byte
	for _, c := range []byte(s) {
		if !bytes.ContainsRune([]byte(" \t\n"), rune(c)) {
			digits = append(digits, c)
		}
	}
	b, err := hex.DecodeString(string(digits))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEdit_GoldenBytes(t *testing.T) {
	want := unhex(t, goldenEdit)
	if got := fullEdit().appendTo(nil); hex.EncodeToString(got) != hex.EncodeToString(want) {
		t.Errorf("appendTo =\n%x, want\n%x", got, want)
	}
	e, err := decodeEdit(want)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(e, fullEdit()) {
		t.Errorf("decodeEdit =\n%s, want\n%s", e, fullEdit())
	}
}

func TestEdit_RoundTrip(t *testing.T) {
	edits := []*Edit{
		{},
		{NextFileNum: math.MaxUint64, LastSeq: base.MaxSeq, MinLog: math.MaxUint64, NewLog: math.MaxUint64},
		{SealedLog: &SealedLog{}},
		{SealedLog: &SealedLog{Num: 1, Length: math.MaxInt64, LastSeq: base.MaxSeq}},
		{Added: []Added{{Level: 6, Run: math.MaxUint64, Table: &Table{Num: math.MaxUint64, Size: maxTableSize, Checksum: math.MaxUint32,
			Smallest: []byte{}, Largest: make([]byte, 70000), MaxSeq: base.MaxSeq, Entries: math.MaxUint64, Tombstones: math.MaxUint64,
			Keys: math.MaxUint64, RawKeyBytes: math.MaxUint64, RawValueBytes: math.MaxUint64, FilterBytes: maxTableSize}}}},
		{Sidecars: []SidecarChange{{Level: 6, Num: math.MaxUint64, Sidecar: &Sidecar{Num: math.MaxUint64, Size: maxTableSize,
			Checksum: math.MaxUint32, FilterBytes: maxTableSize, FilterBits: maxFilterBits}}}},
	}
	for _, want := range edits {
		b := want.appendTo([]byte("prefix"))[len("prefix"):]
		got, err := decodeEdit(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("decodeEdit(appendTo(%s)) = %s, %v", want, got, err)
		}
		if want.empty() != (len(b) == 0) {
			t.Errorf("empty() of %q = %v, its encoding has %d bytes", want, want.empty(), len(b))
		}
	}
}

func TestDecodeEdit_DoesNotAliasItsInput(t *testing.T) {
	b := fullEdit().appendTo(nil)
	e, err := decodeEdit(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if !reflect.DeepEqual(e, fullEdit()) {
		t.Errorf("the edit changed with the buffer it was decoded from:\n%s", e)
	}
}

func TestDecodeEdit_UnknownFields(t *testing.T) {
	known := fullEdit().appendTo(nil)
	optional := append([]byte{61, 3, 'x', 'y', 'z'}, known...)
	e, err := decodeEdit(optional)
	if err != nil || !reflect.DeepEqual(e, fullEdit()) {
		t.Errorf("with an unknown optional field: %s, %v", e, err)
	}
	required := append([]byte{30, 3, 'x', 'y', 'z'}, known...)
	if _, err := decodeEdit(required); !errors.Is(err, base.ErrFormatTooNew) {
		t.Errorf("with an unknown required field: %v, want ErrFormatTooNew", err)
	}
}

func TestDecodeEdit_RefusesDamage(t *testing.T) {
	table := func(change func(*Table)) []byte {
		e := fullEdit()
		change(e.Added[0].Table)
		return e.appendTo(nil)
	}
	sidecar := func(change func(*Sidecar)) []byte {
		e := fullEdit()
		change(e.Sidecars[0].Sidecar)
		return e.appendTo(nil)
	}
	beside := (&Edit{Sidecars: fullEdit().Sidecars}).appendTo(nil)
	cases := map[string][]byte{
		"two sidecars of a table":             append(slices.Clone(beside), beside...),
		"a sidecar without number":            sidecar(func(s *Sidecar) { s.Num = 0 }),
		"a sidecar of no bytes":               sidecar(func(s *Sidecar) { s.Size = 0 }),
		"a sidecar larger than any file":      sidecar(func(s *Sidecar) { s.Size = maxTableSize + 1 }),
		"a sidecar with a filter of no bytes": sidecar(func(s *Sidecar) { s.FilterBytes = 0 }),
		"a sidecar smaller than its filter":   sidecar(func(s *Sidecar) { s.FilterBytes = s.Size + 1 }),
		"a sidecar of infinite bits":          sidecar(func(s *Sidecar) { s.FilterBits = math.Inf(1) }),
		"a field cut in its tag":              {0x80},
		"a field without length":              {2},
		"a length beyond the end":             {2, 2, 1},
		"a length beyond all memory":          append([]byte{14}, binary.AppendUvarint(nil, math.MaxUint64)...),
		"a number cut short":                  {2, 1, 0x80},
		"a number of eleven bytes":            {2, 11, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"an empty number":                     {2, 0},
		"bytes behind a number":               {2, 2, 1, 1},
		"a number twice":                      {2, 1, 1, 2, 1, 1},
		"a sealed log twice":                  {10, 3, 1, 1, 1, 10, 3, 1, 1, 1},
		"a sequence number of 57 bits":        append([]byte{4, 9}, binary.AppendUvarint(nil, 1<<56)...),
		"level 7":                             {12, 2, 7, 1},
		"a removal without number":            {12, 1, 1},
		"a key beyond the end":                {14, 12, 1, 3, 13, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f},
		"bounds in the wrong order":           table(func(t *Table) { t.Smallest = []byte("c") }),
		"a range delete that ends before it":  {16, 7, 1, 'b', 1, 1, 'a', 1, 7},
		"a range delete of no keys":           {16, 7, 1, 'a', 1, 1, 'a', 1, 7},
		"a range delete without number":       {16, 6, 1, 'a', 1, 1, 'b', 0},
		"a range delete of number 0":          {16, 7, 1, 'a', 1, 1, 'b', 1, 0},
		"a range delete with a number twice":  {16, 8, 1, 'a', 1, 1, 'b', 2, 7, 0},
		"a range delete with fewer numbers":   {16, 7, 1, 'a', 1, 1, 'b', 2, 7},
		"a range delete below number 0":       {16, 8, 1, 'a', 1, 1, 'b', 2, 7, 8},
		"a bound that is there twice":         {16, 7, 1, 'a', 2, 1, 'b', 1, 7},
		"range deletes that overlap":          {16, 7, 1, 'a', 1, 1, 'c', 1, 7, 16, 7, 1, 'b', 1, 1, 'd', 1, 8},
		"what is finished and ends before":    {18, 6, 1, 'b', 1, 1, 'a', 7},
		"a size of 0":                         table(func(t *Table) { t.Size = 0 }),
		"a negative size":                     table(func(t *Table) { t.Size = -1 }),
		"a size that overflows sums":          table(func(t *Table) { t.Size = maxTableSize + 1 }),
		"a filter larger than the file": table(func(t *Table) {
			t.FilterBytes = t.Size + 1
		}),
		"infinite bits": table(func(t *Table) { t.FilterBits = math.Inf(1) }),
		"more keys than entries": table(func(t *Table) {
			t.Keys = t.Entries + 1
		}),
	}
	for name, b := range cases {
		if e, err := decodeEdit(b); err == nil {
			t.Errorf("%s: accepted as\n%s", name, e)
		}
	}
	full := fullEdit().appendTo(nil)
	for n := range full {
		e, err := decodeEdit(full[:n])
		if err == nil && len(e.appendTo(nil)) != n {
			t.Errorf("cut to %d bytes: accepted as\n%s", n, e)
		}
	}
}
