package sketch

import (
	"errors"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

var (
	_ bloom.Adder = (*Scalable)(nil)
	_ bloom.Adder = (*Counting)(nil)
	_ bloom.Adder = (*Cuckoo)(nil)
	_ bloom.Set   = (*Exact)(nil)
)

// Add adds key. A key that may have been added before is not added again and takes no room.
//
// A full filter grows, which allocates. If it is NonScaling, or has grown as far as it can,
// the error is [ErrAtCapacity] and a new key is not added.
func (s *Scalable) Add(key []byte) error { return s.AddHash(s.hash.Hash128(key)) }

// AddString is Add for the bytes of key, which it does not copy.
func (s *Scalable) AddString(key string) error { return s.Add(form.Bytes(key)) }

// AddKeys is Add for each of keys. It stops at the first error; the keys before that one
// have been added.
func (s *Scalable) AddKeys(keys [][]byte) error { return form.AddKeys(s, keys) }

// CheckAndAdd adds key, and reports whether it may have been there before; then it takes no
// room. The errors are those of Add.
func (s *Scalable) CheckAndAdd(key []byte) (maybe bool, err error) {
	return s.CheckAndAddHash(s.hash.Hash128(key))
}

// MayContain reports whether key may have been added. False is certain. It hashes the key
// once for all layers, and allocates nothing.
func (s *Scalable) MayContain(key []byte) bool { return s.MayContainHash(s.hash.Hash128(key)) }

// MayContainString is MayContain for the bytes of key, which it does not copy.
func (s *Scalable) MayContainString(key string) bool { return s.MayContain(form.Bytes(key)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (s *Scalable) MayContainKeys(keys [][]byte, out []bool) { form.MayContainKeys(s, keys, out) }

// errZeroCounting is the error of adding to the zero Counting, which would lose the key.
var errZeroCounting = errors.New("bloom: add: the zero Counting takes no keys; make one with NewCounting")

// Add adds key once. It allocates nothing. The error is nil unless f is the zero Counting.
func (f *Counting) Add(key []byte) error {
	if len(f.lines) == 0 {
		return errZeroCounting
	}
	f.AddHash(f.hasher.Hash(key))
	return nil
}

// AddString is Add for the bytes of s, which it does not copy.
func (f *Counting) AddString(s string) error { return f.Add(form.Bytes(s)) }

// AddKeys is Add for each of keys.
func (f *Counting) AddKeys(keys [][]byte) error { return form.AddKeys(f, keys) }

// Remove removes key once, and reports whether it did. It refuses a key that is certainly
// absent, and then changes nothing. A key that was never added must not be removed: if it
// passes by chance, other keys may be denied after that. It allocates nothing.
func (f *Counting) Remove(key []byte) bool { return f.RemoveHash(f.hasher.Hash(key)) }

// MayContain reports whether key may be in the filter. False is certain. It
// allocates nothing.
func (f *Counting) MayContain(key []byte) bool { return f.MayContainHash(f.hasher.Hash(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *Counting) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Counting) MayContainKeys(keys [][]byte, out []bool) { form.MayContainKeys(f, keys, out) }

// Add adds key once. The error is [ErrFull] if there is no room, or if the key has been added
// eight times; nothing has changed then. It allocates nothing.
func (f *Cuckoo) Add(key []byte) error { return f.AddHash(f.hasher.Hash(key)) }

// AddString is Add for the bytes of s, which it does not copy.
func (f *Cuckoo) AddString(s string) error { return f.Add(form.Bytes(s)) }

// AddKeys is Add for each of keys. It stops at the first error; the keys before that one
// have been added.
func (f *Cuckoo) AddKeys(keys [][]byte) error { return form.AddKeys(f, keys) }

// Remove removes key once, and reports whether it did. False means that the key was
// certainly absent. A key that was never added must not be removed: if it passes by chance,
// another key is denied after that. It allocates nothing.
func (f *Cuckoo) Remove(key []byte) bool { return f.RemoveHash(f.hasher.Hash(key)) }

// MayContain reports whether key may be in the filter. False is certain. It
// allocates nothing.
func (f *Cuckoo) MayContain(key []byte) bool { return f.MayContainHash(f.hasher.Hash(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *Cuckoo) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Cuckoo) MayContainKeys(keys [][]byte, out []bool) { form.MayContainKeys(f, keys, out) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (e *Exact) MayContainString(s string) bool { return e.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (e *Exact) MayContainKeys(keys [][]byte, out []bool) { form.MayContainKeys(e, keys, out) }
