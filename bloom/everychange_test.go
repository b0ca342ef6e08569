package bloom_test

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/compat/bip37"
	"github.com/shaledb/shale/bloom/compat/bitsandblooms"
	"github.com/shaledb/shale/bloom/compat/guava"
	"github.com/shaledb/shale/bloom/compat/parquet"
	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/internal/testenv"
)

// marshal returns the bytes of f, or nil if it cannot be written.
func marshal(f any) []byte {
	b, err := f.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return b
}

// A union has the keys of both filters, the other one is as before, and one of another shape is
// refused. A clone does not change with its original, and Reset leaves nothing.
func TestEveryType_Unites(t *testing.T) {
	for _, f := range every {
		a, ok := f.full().(bloom.Adder)
		if !ok {
			continue
		}
		b := f.full().(bloom.Adder)
		must(a.AddString("one"), b.AddString("two"))
		if clone := reflect.ValueOf(a).MethodByName("Clone"); clone.IsValid() {
			c := clone.Call(nil)[0].Interface().(bloom.Adder)
			before := marshal(c)
			must(a.AddString("three"))
			if !bytes.Equal(marshal(c), before) {
				t.Errorf("%s: a clone changes with its original", f.name)
			}
			must(c.AddString("four"))
			if !c.MayContainString("one") || a.MayContainString("four") {
				t.Errorf("%s: a clone has no memory of its own", f.name)
			}
		}
		if union := reflect.ValueOf(a).MethodByName("Union"); union.IsValid() {
			unite := func(other any) error {
				err, _ := union.Call([]reflect.Value{reflect.ValueOf(other)})[0].Interface().(error)
				return err
			}
			kept := marshal(b)
			if err := unite(b); err != nil || !a.MayContainString("one") || !a.MayContainString("two") || !bytes.Equal(marshal(b), kept) {
				t.Errorf("%s: Union = %v, or a key is denied, or the other filter changed", f.name, err)
			}
			united := marshal(a)
			if err := unite(f.zero()); err == nil || !bytes.Equal(marshal(a), united) {
				t.Errorf("%s: Union with a filter of another shape = %v", f.name, err)
			}
		}
		if reset, ok := any(a).(interface{ Reset() }); ok {
			if reset.Reset(); a.MayContainString("one") || a.(interface{ FPR() float64 }).FPR() != 0 {
				t.Errorf("%s: Reset leaves something", f.name)
			}
		}
	}
}

// Adding and asking allocate nothing, whatever the answer and however long the key.
func TestEveryType_AllocatesNothing(t *testing.T) {
	testenv.SkipRace(t)
	for _, f := range every {
		set, ok := f.full().(bloom.Set)
		if !ok {
			continue
		}
		adder, adds := set.(bloom.Adder)
		key, long := []byte("key of no multiple of 16"), string(make([]byte, 200))
		number := uint64(0)
		for what, fn := range map[string]func(){
			"asking": func() {
				number++
				binary.LittleEndian.PutUint64(key, number)
				set.MayContain(key)
				set.MayContainString(long)
			},
			"adding": func() {
				if adds {
					_ = adder.Add(key)
					_ = adder.AddString(long)
				}
				switch f := set.(type) {
				case interface{ CheckAndAdd(key []byte) bool }:
					f.CheckAndAdd(key)
				case interface {
					CheckAndAdd(key []byte) (bool, error)
				}:
					_, _ = f.CheckAndAdd(key)
				case interface{ Remove(key []byte) bool }:
					f.Remove(key)
				}
			},
		} {
			if n := testing.AllocsPerRun(100, fn); n != 0 {
				t.Errorf("%s: %s: %v allocations", f.name, what, n)
			}
		}
	}
}

// FuzzCompat gives bytes to the readers of the formats of other programs. Reading from a stream
// gives the same filter as reading the whole, and takes little memory. Written again, the filter
// has the same bytes, or is read as the same filter.
func FuzzCompat(f *testing.F) {
	type filter interface {
		bloom.Adder
		streamed
		encoding.BinaryUnmarshaler
		FPR() float64
	}
	formats := []func() filter{
		func() filter { return new(bip37.Filter) }, func() filter { return new(bitsandblooms.Filter) },
		func() filter { return new(guava.Filter) }, func() filter { return new(parquet.Filter) },
	}
	for _, pattern := range []string{"bip37/testdata/*.filterload", "bitsandblooms/testdata/*.bf", "guava/testdata/*.bf", "parquet/testdata/*.filter"} {
		names, err := filepath.Glob("compat/" + pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, name := range names {
			f.Add(get(os.ReadFile(name)), "key-0")
		}
	}
	f.Add(binary.BigEndian.AppendUint64(nil, 1<<40), "")
	f.Add([]byte{1, 255, 0x7f, 0xff, 0xff, 0xff, 0}, "")
	f.Add([]byte("\x15\xc0\xff\xff\xff\x0f\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1b\x02\x81\x01\x61\x01\x01\x62\x02\x00"), "")
	limit := fuzzing.Limit{Bytes: 48 << 10, PerByte: 4}
	f.Fuzz(func(t *testing.T, b []byte, key string) {
		for _, zero := range formats {
			stream, whole := zero(), zero()
			name := fmt.Sprintf("%T", stream)
			var n int64
			var streamErr, wholeErr error
			limit.Check(t, len(b), func() { n, streamErr = stream.ReadFrom(bytes.NewReader(b)) })
			limit.Check(t, len(b), func() { wholeErr = whole.UnmarshalBinary(b) })
			if (wholeErr == nil) != (streamErr == nil && n == int64(len(b))) {
				t.Fatalf("%s: ReadFrom: %d of %d, %v; UnmarshalBinary: %v", name, n, len(b), streamErr, wholeErr)
			}
			for _, err := range []error{streamErr, wholeErr} {
				if err != nil && errors.Is(err, bloom.ErrDamaged) == errors.Is(err, bloom.ErrUnknown) {
					t.Fatalf("%s: an error that is neither, or both: %v", name, err)
				}
			}
			if streamErr != nil {
				if !stream.MayContainString(key) {
					t.Fatalf("%s: what was not read denies a key", name)
				}
				continue
			}
			if p := stream.FPR(); !(p >= 0 && p <= 1) {
				t.Fatalf("%s: FPR() = %v", name, p)
			}
			written := get(stream.MarshalBinary())
			if again := zero(); again.UnmarshalBinary(written) != nil || !reflect.DeepEqual(again, stream) ||
				!bytes.Equal(written, b[:n]) && name != "*parquet.Filter" { // whose header may have fields that are to come
				t.Fatalf("%s: written again it is another", name)
			}
			had := stream.MayContainString(key)
			if f, ok := stream.(interface{ CheckAndAdd(key []byte) bool }); ok && f.CheckAndAdd([]byte(key)) != had {
				t.Fatalf("%s: CheckAndAdd says otherwise", name)
			}
			if stream.AddString(key) == nil && !stream.MayContainString(key) {
				t.Fatalf("%s: an added key is denied", name)
			}
			if _, err := stream.WriteTo(io.Discard); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}
