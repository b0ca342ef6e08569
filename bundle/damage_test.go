package bundle

import (
	"bytes"
	"errors"
	"testing"

	"github.com/shaledb/shale/bloom"
)

// wantNoLies checks that a bundle, if it is one, denies no key of m.
func wantNoLies(t *testing.T, m *model, data []byte, what string, args ...any) (b *Bundle, err error) {
	t.Helper()
	b, err = Open(data)
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormatTooNew) {
			t.Errorf(what+": %v is neither damage nor the future", append(args, err)...)
		}
		return nil, err
	}
	m.each(func(key []byte) {
		if !b.MayContain(key) {
			t.Errorf(what+": MayContain(%.40q) = false for a key of it", append(args, key)...)
		}
	})
	return b, nil
}

// Whatever byte is changed, there is an error, or all answers are right. Changes
// outside of padding are found.
func TestDamage_EveryByte(t *testing.T) {
	m := smallModel(t)
	data := m.bytes(t)
	used := usedBytes(t, data)
	inFilters, padding := 0, 0
	for i := range data {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(data)
			bad[i] ^= flip
			b, err := wantNoLies(t, m, bad, "byte %d of %d xor %#x", i, len(data), flip)
			switch {
			case err != nil:
			case !used[i]:
				padding++
			case len(b.Damaged()) != 1 || b.Err() == nil:
				t.Errorf("byte %d of %d xor %#x: nothing found out", i, len(data), flip)
			default:
				inFilters++
			}
		}
	}
	if inFilters < 600 || padding == 0 {
		t.Errorf("%d changes of filters and %d of padding were met", inFilters, padding)
	}
}

// usedBytes reports for each byte of a bundle whether it is not padding.
func usedBytes(t *testing.T, data []byte) []bool {
	h, err := decodeHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(data))
	mark := func(from, n uint64) {
		for i := from; i < from+n; i++ {
			used[i] = true
		}
	}
	mark(0, headerLen+uint64(h.dirLen))
	dir := data[headerLen : headerLen+h.dirLen]
	for range h.runs {
		_, n, rest, err := decodeRun(dir)
		for range n {
			var e tableEntry
			if e, rest, err = decodeTable(rest); err != nil {
				break
			}
			mark(e.offset, e.length)
		}
		if err != nil {
			t.Fatal(err)
		}
		dir = rest
	}
	return used
}

// A bundle is refused when it is cut anywhere, and with any bytes behind it.
func TestDamage_EveryLength(t *testing.T) {
	data := smallModel(t).bytes(t)
	for n := range data {
		if _, err := Open(data[:n:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("Open of %d of %d bytes gives %v, want ErrDamaged", n, len(data), err)
		}
		if _, err := Read(bytes.NewReader(data[:n]), 1<<20); !errors.Is(err, ErrDamaged) {
			t.Fatalf("Read of %d of %d bytes gives %v, want ErrDamaged", n, len(data), err)
		}
	}
	longer := append(bytes.Clone(data), 0)
	if _, err := Open(longer); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open of a byte too many gives %v, want ErrDamaged", err)
	}
	if _, err := Read(bytes.NewReader(longer), 1<<20); !errors.Is(err, ErrDamaged) {
		t.Errorf("Read of a byte too many gives %v, want ErrDamaged", err)
	}
}

// Filters that are swapped, or moved by a line, have correct checksums of their own. The
// directory shows that they are wrong.
func TestDamage_FiltersElsewhere(t *testing.T) {
	m := &model{}
	var keys [][]byte
	for i := range 40 {
		keys = append(keys, []byte{'k', byte(i)})
	}
	m.addRun(t, 6, 4, 10, keys)
	data := m.bytes(t)
	n := len(m.filters[0][0])
	at := func(i int) []byte {
		from := bytes.Index(data, m.filters[0][i])
		return data[from : from+n]
	}
	copy(at(0), m.filters[0][1])
	b, err := wantNoLies(t, m, data, "filter 1 in the place of filter 0")
	if err != nil || len(b.Damaged()) != 1 || !errors.Is(b.Err(), bloom.ErrDamaged) {
		t.Fatalf("%v; damaged are %v, want the first", err, b.Damaged())
	}
	if d := b.Damaged()[0]; d.Level != 6 || !bytes.Equal(d.Smallest, keys[0]) || !bytes.Equal(d.Largest, keys[9]) || d.Offset%alignment != 0 {
		t.Errorf("damaged is %+v", d)
	}
}

// A filter of an unknown kind costs only the answers of its table.
func TestDamage_UnknownFilter(t *testing.T) {
	m := smallModel(t)
	data := m.bytes(t)
	filter := m.filters[2][1]
	at := bytes.Index(data, filter)
	data[at+len(filter)-32] = 200 // the kind
	data = reseal(data)
	b, err := wantNoLies(t, m, data, "an unknown filter")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Damaged()) != 1 || !errors.Is(b.Err(), bloom.ErrUnknown) {
		t.Errorf("damaged are %v, want one of an unknown kind", b.Damaged())
	}
	between := append(bytes.Clone(m.keys[2][1][0]), "?"...)
	if !b.MayContain(between) {
		t.Errorf("MayContain(%q) = false within the bounds of a table without a known filter", between)
	}
}
