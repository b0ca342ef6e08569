package cluster

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
)

// seedEntries have each field set and not set.
var seedEntries = []raft.Log{
	{},
	{Index: 7, Term: 300, Type: raft.LogNoop, Data: []byte("data"), Extensions: []byte("ext"),
		AppendedAt: time.Unix(1_700_000_000, 123_456_789).UTC()},
	{Index: math.MaxUint64 - 1, Term: math.MaxUint64, Type: math.MaxUint8, Data: []byte{}, Extensions: []byte{}},
	{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: bytes.Repeat([]byte("x"), 1000)},
	{Index: 2, Term: 1, Extensions: bytes.Repeat([]byte("y"), 200)},
	{Index: 3, Term: 1, AppendedAt: time.Unix(-1, 1).UTC()},
	{Index: 4, Term: 1, AppendedAt: time.Date(9999, 1, 2, 3, 4, 5, 6, time.UTC)},
	{Index: 5, Term: 1, AppendedAt: time.Time{}.Add(time.Nanosecond)},
}

// TestEntry_RoundTrip takes all fields there and back, nil and empty slices too.
func TestEntry_RoundTrip(t *testing.T) {
	t.Parallel()
	for _, l := range seedEntries {
		got, err := decodeEntry(appendEntry([]byte("before"), &l)[len("before"):], l.Index, MaxEntrySize)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("decodeEntry of %+v = %+v, %v", l, got, err)
		}
	}
	summer := time.FixedZone("summer", 7200)
	l := raft.Log{AppendedAt: time.Now().In(summer)}
	if got, err := decodeEntry(appendEntry(nil, &l), 0, MaxEntrySize); err != nil || !got.AppendedAt.Equal(l.AppendedAt) || got.AppendedAt.Location() != time.UTC {
		t.Errorf("AppendedAt %v became %v, %v", l.AppendedAt, got.AppendedAt, err)
	}
}

// TestEntry_Golden has the bytes of docs/LOGSTORE.md, which never change.
func TestEntry_Golden(t *testing.T) {
	t.Parallel()
	want := strings.ReplaceAll("07 01 ac02 00f1536500000000 15cd5b07 03 657874 64617461", " ", "")
	if got := hex.EncodeToString(appendEntry(nil, &seedEntries[1])); got != want {
		t.Errorf("entry = %s, want %s", got, want)
	}
	if got := hex.EncodeToString(appendEntryKey(nil, 258)); got != "4c0000000000000102" {
		t.Errorf("key of entry 258 = %s", got)
	}
	if got := hex.EncodeToString(appendFirst(nil, 258)); got != "0201000000000000" {
		t.Errorf("first index 258 = %s", got)
	}
}

// TestEntry_KeepsNothing changes the bytes after they were decoded.
func TestEntry_KeepsNothing(t *testing.T) {
	t.Parallel()
	src := appendEntry(nil, &seedEntries[1])
	got, err := decodeEntry(src, 7, MaxEntrySize)
	clear(src)
	if err != nil || !reflect.DeepEqual(got, seedEntries[1]) {
		t.Errorf("decodeEntry = %+v, %v, after its source has changed", got, err)
	}
}

// TestEntry_CutOff cuts an entry off at each byte before its data, and gives it unknown flags.
func TestEntry_CutOff(t *testing.T) {
	t.Parallel()
	src := appendEntry(nil, &seedEntries[1])
	for n := range len(src) - len("data") {
		if got, err := decodeEntry(src[:n], 7, MaxEntrySize); err == nil {
			t.Errorf("decodeEntry of the first %d bytes = %+v, want an error", n, got)
		}
	}
	for bit := 3; bit < 8; bit++ {
		if _, err := decodeEntry(append([]byte{1 << bit}, src[1:]...), 7, MaxEntrySize); !errors.Is(err, shale.ErrFormatTooNew) {
			t.Errorf("decodeEntry with flag %#x = %v, want ErrFormatTooNew", 1<<bit, err)
		}
	}
}

// FuzzEntry decodes any bytes: there is no panic, what it accepts is encoded to the same bytes again, and
// it takes no more memory than a few times their length.
func FuzzEntry(f *testing.F) {
	for _, l := range seedEntries {
		f.Add(appendEntry(nil, &l))
	}
	f.Add([]byte{2, 0, 1, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, src []byte) {
		l, err := decodeEntry(src, 5, MaxEntrySize)
		if err != nil {
			if !reflect.DeepEqual(l, raft.Log{}) {
				t.Errorf("decodeEntry(%x) = %+v and %v", src, l, err)
			}
			return
		}
		if l.Index != 5 || cap(l.Data)+cap(l.Extensions) > len(src) {
			t.Errorf("decodeEntry(%x) = %+v, with %d and %d bytes", src, l, cap(l.Data), cap(l.Extensions))
		}
		if again := appendEntry(nil, &l); !bytes.Equal(again, src) {
			t.Errorf("decodeEntry(%x) = %+v, which is encoded as %x", src, l, again)
		}
	})
}
