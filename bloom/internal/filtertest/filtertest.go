// Package filtertest has what the tests of package bloom and of its sketches share. It is for
// tests only.
package filtertest

import (
	"encoding"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/internal/testenv"
)

// Numbered returns the i-th of the numbered keys.
func Numbered(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }

// A Set can be asked for keys.
type Set interface{ MayContain(key []byte) bool }

// CheckHas fails if f denies one of n numbered keys, of which the first has number first.
func CheckHas(t testing.TB, f Set, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		if !f.MayContain(Numbered(i)) {
			t.Fatalf("key-%d is denied", i)
		}
	}
}

// FalsePositives counts how many of n keys pass that were not added.
func FalsePositives(f Set, n int) (passed int) {
	for i := range n {
		if f.MayContain(fmt.Appendf(nil, "absent-%d", i)) {
			passed++
		}
	}
	return passed
}

// RandomHashes returns n hashes; the same ones for the same seed.
func RandomHashes(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 0))
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = r.Uint64()
	}
	return hs
}

// Marshal returns the serialized form of f.
func Marshal(t testing.TB, f encoding.BinaryMarshaler) []byte {
	t.Helper()
	b, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Reseal returns a copy of a filter whose checksum fits again, after a test
// has changed something else in it.
func Reseal(filter []byte) []byte {
	b := append([]byte(nil), filter...)
	if len(b) >= form.TrailerLen {
		binary.LittleEndian.PutUint32(b[len(b)-4:], form.Checksum(b))
	}
	return b
}

// CheckRefused fails unless open refuses b with want, or with ErrDamaged or ErrUnknown if
// want is nil.
func CheckRefused[F any](t *testing.T, open func([]byte) (*F, error), what string, b []byte, want error) {
	t.Helper()
	f, err := open(b)
	switch {
	case err == nil || f != nil:
		t.Errorf("%s: opened: %v, %v", what, f, err)
	case want != nil && !errors.Is(err, want):
		t.Errorf("%s: error %q, want %q", what, err, want)
	case errors.Is(err, form.ErrDamaged) == errors.Is(err, form.ErrUnknown):
		t.Errorf("%s: error %q is not one of ErrDamaged and ErrUnknown", what, err)
	}
}

var update = flag.Bool("update", false, "write the golden filters anew: a change of the format")

// ReadGolden returns a golden file, and writes it first if -update is given.
func ReadGolden(t testing.TB, name string, made func() []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, made(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Short reports whether tests that count should count less.
func Short() bool { return testing.Short() || testenv.Race }

// CountAllocs fails if fn allocates.
func CountAllocs(t *testing.T, name string, fn func()) {
	t.Helper()
	if n := testing.AllocsPerRun(200, fn); n != 0 {
		t.Errorf("%s allocates %v times", name, n)
	}
}

// Digits writes v in decimal into b.
func Digits(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
}

// BenchKeys returns n keys of 16 bytes that benchmarks use in turn.
func BenchKeys(n int) [][]byte {
	keys, all := make([][]byte, n), make([]byte, 16*n)
	r := rand.New(rand.NewPCG(11, 0))
	for i := range keys {
		keys[i] = all[16*i : 16*i+16]
		Digits(keys[i], r.Uint64())
	}
	return keys
}

// A ShortWriter takes Room bytes, and then returns io.ErrShortWrite.
type ShortWriter struct{ Room int64 }

// Write takes b as far as there is room.
func (w *ShortWriter) Write(b []byte) (int, error) {
	if n := min(w.Room, int64(len(b))); n < int64(len(b)) {
		w.Room -= n
		return int(n), io.ErrShortWrite
	}
	w.Room -= int64(len(b))
	return len(b), nil
}
