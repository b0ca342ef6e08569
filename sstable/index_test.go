package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

func TestSeparator(t *testing.T) {
	cases := []struct{ last, next, want string }{
		{"a", "b", "a"},
		{"abc", "abd", "abc"},
		{"abcdef", "abz", "abd"},
		{"abcdef", "abd", "abce"},
		{"abcdef", "abdz", "abd"},
		{"ab\xff\xffz", "ac", "ab\xff\xff{"},
		{"ab\xff\xff", "ac", "ab\xff\xff"},
		{"a", "aa", "a"},
		{"", "a", ""},
		{"a\xff", "b\x00", "b"},
		{"user000199", "user000200", "user0002"},
	}
	for _, c := range cases {
		if got := separator(nil, []byte(c.last), []byte(c.next)); string(got) != c.want {
			t.Errorf("separator(%q, %q) = %q, want %q", c.last, c.next, got, c.want)
		}
	}
	rng := rand.New(rand.NewPCG(5, 5))
	random := func() []byte {
		b := make([]byte, rng.IntN(5))
		for i := range b {
			b[i] = []byte{0, 1, 0xfe, 0xff}[rng.IntN(4)]
		}
		return b
	}
	for range 50_000 {
		last, next := random(), random()
		if bytes.Compare(last, next) >= 0 {
			continue
		}
		got := separator(nil, last, next)
		if bytes.Compare(got, last) < 0 || bytes.Compare(got, next) >= 0 || len(got) > len(last) {
			t.Fatalf("separator(%q, %q) = %q", last, next, got)
		}
	}
}

func TestIndex_Damaged(t *testing.T) {
	build := func(change func(b *indexBuilder)) []byte {
		b := indexBuilder{}
		for i := range 4 {
			b.add(fmt.Appendf(nil, "key%d", i), 0, int64(20*(i+1)), 15)
		}
		change(&b)
		return b.payload(0, b.n())
	}
	set := func(at int, v byte) func([]byte) { return func(b []byte) { b[at] = v } }
	cases := []struct {
		name  string
		build func(b *indexBuilder)
		bytes func(b []byte)
		want  error
	}{
		{name: "good"},
		{name: "order", build: func(b *indexBuilder) { b.keys[7] = '9' }, want: errOutOfOrder},
		{name: "equal", build: func(b *indexBuilder) { b.keys[11] = '1' }, want: errOutOfOrder},
		{name: "end", build: func(b *indexBuilder) { b.ends[3] = 101 }, want: errIndexHandle},
		{name: "backwards", build: func(b *indexBuilder) { b.ends[1] = 5 }, want: errIndexHandle},
		{name: "ratio", build: func(b *indexBuilder) { b.lengths[0] = 15*maxRatio + 1 }, want: errIndexHandle},
		{name: "count", bytes: set(0, 5), want: errIndexHeader},
		{name: "many", bytes: set(3, 0xff), want: errIndexHeader},
		{name: "flags", bytes: set(4, 2), want: errIndexHeader},
		{name: "prefix", bytes: set(6, 200), want: errIndexHeader},
		{name: "start", bytes: set(15, 0x80), want: errIndexHeader},
		{name: "blob", bytes: set(16, 99), want: errIndexHeader},
		{name: "head", bytes: set(indexHeader, 1), want: errIndexKeys},
		{name: "key", bytes: set(indexHeader+4*20+4, 9), want: errIndexKeys},
	}
	for _, c := range cases {
		if c.build == nil {
			c.build = func(*indexBuilder) {}
		}
		b := build(c.build)
		if c.bytes != nil {
			c.bytes(b)
		}
		if err := checkIndex(b, 100); !errors.Is(err, c.want) {
			t.Errorf("%s: checkIndex = %v, want %v", c.name, err, c.want)
		}
		for n := range b {
			if checkIndex(b[:n], 100) == nil {
				t.Errorf("%s: %d of %d bytes are an index", c.name, n, len(b))
			}
		}
	}
}

func TestProperties_RoundTrip(t *testing.T) {
	p := Properties{
		kinds: 3, Entries: 1 << 40, Tombstones: 3, Keys: 4, Smallest: []byte("a"), Largest: []byte("z"),
		MinSeq: 5, MaxSeq: base.MaxSeq, RawKeyBytes: 6, RawValueBytes: 7, DataBlocks: 8, DataBytes: 9,
		Partitions: 10, FilterBits: 9.375,
	}
	b := p.appendTo(nil)
	got, err := decodeProperties(b)
	if err != nil || fmt.Sprint(*got) != fmt.Sprint(p) {
		t.Errorf("decodeProperties = %v, %v, want %v", got, err, p)
	}
	if _, err := decodeProperties(appendNumber(b, 1001, 5)); err != nil {
		t.Errorf("unknown odd tag: %v", err)
	}
	for name, bad := range map[string][]byte{
		"unknown even tag": appendNumber(b, 1000, 5),
		"unknown kind":     appendNumber(nil, propKinds, 1<<2),
	} {
		if _, err := decodeProperties(bad); !errors.Is(err, base.ErrFormatTooNew) {
			t.Errorf("%s: %v, want ErrFormatTooNew", name, err)
		}
	}
	for name, bad := range map[string][]byte{
		"twice":      appendNumber(b, propKeys, 5),
		"long":       {4, 200, 1, 1},
		"no varint":  appendBytes(nil, propEntries, []byte{0x80}),
		"two":        appendBytes(nil, propEntries, []byte{1, 1}),
		"seq order":  appendNumber(appendNumber(nil, propMinSeq, 5), propMaxSeq, 4),
		"data bytes": appendNumber(nil, propDataBytes, 1<<63),
	} {
		if _, err := decodeProperties(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
