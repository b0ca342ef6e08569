package bloom_test

import (
	"bytes"
	"encoding"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
)

// A streamed is a filter that can be written into a stream.
type streamed interface {
	io.WriterTo
	io.ReaderFrom
	encoding.BinaryMarshaler
}

// Every type that can be saved can be written into a stream, behind another filter and in front
// of other bytes, and is read back without a byte of these.
func TestStream_EveryType(t *testing.T) {
	streams := 0
	for _, f := range every {
		full, ok := f.full().(streamed)
		if f.bare {
			if ok {
				t.Errorf("%s has no serialized form, and WriteTo", f.name)
			}
			continue
		}
		if !ok {
			t.Errorf("%s has a serialized form, and no WriteTo and ReadFrom", f.name)
			continue
		}
		streams++
		t.Run(f.name, func(t *testing.T) { checkStream(t, f, full) })
	}
	if streams < 14 {
		t.Errorf("%d types", streams)
	}
}

func checkStream(t *testing.T, f filterType, full streamed) {
	var out bytes.Buffer
	for range 2 {
		before := out.Len()
		if n, err := full.WriteTo(&out); err != nil || n != int64(out.Len()-before) {
			t.Fatalf("WriteTo = %d, %v; %d bytes", n, err, out.Len()-before)
		}
	}
	const rubbish = "and something else"
	one := out.Len() / 2
	out.WriteString(rubbish)
	all := bytes.Clone(out.Bytes())
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "half": iotest.HalfReader(bytes.NewReader(all)), "a byte at a time": iotest.OneByteReader(bytes.NewReader(all)),
	} {
		for i := range 2 {
			got := f.zero().(streamed)
			if n, err := got.ReadFrom(r); err != nil || n != int64(one) {
				t.Fatalf("%s: filter %d: ReadFrom = %d, %v, want %d", name, i, n, err, one)
			}
			if !reflect.DeepEqual(got, full) {
				t.Errorf("%s: filter %d is %v, want %v", name, i, got, full)
			}
			checkSame(t, got, full)
		}
		if rest, err := io.ReadAll(r); err != nil || string(rest) != rubbish {
			t.Errorf("%s: %q is left, %v", name, rest, err)
		}
	}
	for cut := range one {
		got := f.zero().(streamed)
		if n, err := got.ReadFrom(bytes.NewReader(all[:cut])); err == nil || n > int64(cut) || !reflect.DeepEqual(got, f.zero()) {
			t.Fatalf("cut after %d of %d bytes: ReadFrom = %d, %v, and the filter is %v", cut, one, n, err, got)
		} else if !strings.Contains(err.Error(), ": ") {
			t.Fatalf("cut after %d bytes: %q does not say of what", cut, err)
		}
	}
	for _, room := range []int{0, one / 2, one - 1} {
		if n, err := full.WriteTo(&filtertest.ShortWriter{Room: int64(room)}); n != int64(room) || !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("room for %d of %d: WriteTo = %d, %v", room, one, n, err)
		}
	}
	failed := errors.New("no disk")
	if _, err := f.zero().(streamed).ReadFrom(io.MultiReader(bytes.NewReader(all[:one/2]), iotest.ErrReader(failed))); !errors.Is(err, failed) {
		t.Errorf("of a reader that fails: %v", err)
	}
	if _, err := f.zero().(io.WriterTo).WriteTo(io.Discard); err == nil && !f.exact && f.name != "bip37.Filter" { // these two are filters
		t.Error("the zero value is written")
	}
}

// checkSame asks both filters for keys that they have and have not.
func checkSame(t *testing.T, got, want any) {
	t.Helper()
	a, ok := got.(bloom.Set)
	b, ok2 := want.(bloom.Set)
	if !ok || !ok2 {
		return
	}
	for i := range 500 {
		if key := []byte{'k', 'e', 'y', byte(i), byte(i >> 8)}[:3+i%3]; a.MayContain(key) != b.MayContain(key) {
			t.Errorf("%q: %v, want %v", key, a.MayContain(key), b.MayContain(key))
		}
	}
}
