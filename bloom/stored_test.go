package bloom

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A countedFile has a filter behind other bytes, and counts what is read of it.
type countedFile struct {
	b            []byte
	calls, bytes int
	err          error
}

const storedAt = 192 // where the filter begins in a countedFile

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if off < storedAt || off+int64(len(p)) > storedAt+int64(len(f.b)) {
		return 0, io.ErrUnexpectedEOF
	}
	f.calls, f.bytes = f.calls+1, f.bytes+len(p)
	return copy(p, f.b[off-storedAt:]), nil
}

func openStored(b []byte) (*Stored, error) {
	return OpenStored(bytes.Clone(b[max(0, len(b)-StoredEnd):]), int64(len(b)))
}

// TestStored_AnswersAlike: a filter that stays in its file answers as it does in memory, of every kind, size and hash function,
// and reads as little as it says.
func TestStored_AnswersAlike(t *testing.T) {
	for _, kind := range everyKind {
		for _, hasher := range everyHasher() {
			for _, bits := range []float64{5, 9.1, 10, 13, 14, 18.2, 20, 26} {
				for _, n := range []int{0, 1, 3000} {
					hs := keyHashes(hasher, n)
					b := mustAppend(hs, StaticOptions{Kind: kind, BitsPerKey: bits, Hasher: hasher})
					want := mustOpenStatic(b)
					s, err := openStored(b)
					if err != nil || s.Hasher() != hasher {
						t.Fatalf("%v of %v bits, %d keys: %v", kind, bits, n, err)
					}
					f, buf := &countedFile{b: b}, new([64]byte)
					for _, h := range append(hs, filtertest.RandomHashes(2, 3000)...) {
						f.calls, f.bytes = 0, 0
						maybe, err := s.MayContainHash(f, storedAt, h, buf)
						if err != nil || maybe != want.MayContainHash(h) {
							t.Fatalf("%v of %v bits, %d keys: hash %016x: %v, %v", kind, bits, n, h, maybe, err)
						}
						most := 64 * want.Units()
						if kind == KindFuse {
							most = 12
						} else if !maybe && want.Units() == 1 {
							most = 64
						}
						if f.bytes > most || f.calls > 3 {
							t.Fatalf("%v of %v bits: a question read %d bytes with %d calls, want %d", kind, bits, f.bytes, f.calls, most)
						}
					}
				}
			}
		}
	}
}

// A read that fails means maybe.
func TestStored_ReadFails(t *testing.T) {
	cause := errors.New("the device is gone")
	for _, kind := range everyKind {
		b := mustAppend(filtertest.RandomHashes(1, 1000), StaticOptions{Kind: kind, BitsPerKey: 20})
		s := Must(openStored(b))
		for _, h := range filtertest.RandomHashes(2, 100) {
			if maybe, err := s.MayContainHash(&countedFile{b: b, err: cause}, storedAt, h, new([64]byte)); !maybe || err != cause {
				t.Fatalf("%v: %v, %v", kind, maybe, err)
			}
		}
	}
}

// TestOpenStored_Damage gives each byte of the end every value: the filter is refused, or reads nothing outside of its bytes. An end
// of another length, or of another filter, is refused.
func TestOpenStored_Damage(t *testing.T) {
	for _, kind := range everyKind {
		b := mustAppend(filtertest.RandomHashes(1, 1000), StaticOptions{Kind: kind, BitsPerKey: 20})
		refused := 0
		for i := len(b) - StoredEnd; i < len(b); i++ {
			for v := range 256 {
				bad := bytes.Clone(b)
				bad[i] = byte(v)
				s, err := openStored(bad)
				if err != nil {
					if refused++; errors.Is(err, ErrDamaged) == errors.Is(err, ErrUnknown) {
						t.Fatal(err)
					}
					continue
				}
				for _, h := range filtertest.RandomHashes(3, 20) {
					if _, err := s.MayContainHash(&countedFile{b: bad}, storedAt, h, new([64]byte)); err != nil {
						t.Fatalf("%v: byte %d is %d: %v", kind, i, v, err)
					}
				}
			}
		}
		if refused < 9*200 {
			t.Errorf("%v: %d changes were refused", kind, refused)
		}
		for _, size := range []int64{-1, 0, form.TrailerLen, StoredEnd, int64(len(b)) - 1, int64(len(b)) + 64} {
			if _, err := OpenStored(b[len(b)-StoredEnd:], size); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v: the end of %d bytes as that of %d: %v", kind, len(b), size, err)
			}
		}
		for n := range StoredEnd {
			if _, err := OpenStored(b[len(b)-n:], int64(len(b))); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v: %d bytes of the end: %v", kind, n, err)
			}
		}
	}
}

// A question allocates nothing.
func TestStored_Allocations(t *testing.T) {
	for _, kind := range everyKind {
		b := mustAppend(filtertest.RandomHashes(1, 1000), StaticOptions{Kind: kind, BitsPerKey: 20})
		s, f, buf, h := Must(openStored(b)), &countedFile{b: b}, new([64]byte), uint64(1)
		if n := testing.AllocsPerRun(100, func() {
			h = h*form.ProbeMul + 1
			_, _ = s.MayContainHash(f, storedAt, h, buf)
		}); n != 0 {
			t.Errorf("%v: %v allocations a question", kind, n)
		}
	}
}
