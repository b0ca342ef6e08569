package bloom

import (
	"errors"

	"github.com/shaledb/shale/bloom/internal/form"
)

// Errors of adding to a zero filter, which would lose the key without a word.
var (
	errZeroFilter = errors.New("bloom: add: the zero Filter takes no keys; make one with New or NewFilter")
	errZeroAtomic = errors.New("bloom: add: the zero AtomicBlocked takes no keys; make one with NewAtomicBlocked")
)

// Add adds key. It allocates nothing. The error is nil unless f is the zero Filter.
func (f *Filter) Add(key []byte) error {
	if f.bits.M == 0 {
		return errZeroFilter
	}
	f.bits.Add(f.hash.Hash128(key))
	return nil
}

// AddString is Add for the bytes of s, which it does not copy.
func (f *Filter) AddString(s string) error { return f.Add(form.Bytes(s)) }

// AddKeys is Add for each of keys.
func (f *Filter) AddKeys(keys [][]byte) error { return form.AddKeys(f, keys) }

// MayContain reports whether key may have been added. False is certain. It
// allocates nothing.
func (f *Filter) MayContain(key []byte) bool { return f.bits.Has(f.hash.Hash128(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *Filter) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Filter) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [2 * someKeys]uint64
	out = askable(len(keys), out)
	for len(out) > 0 {
		n := min(len(out), someKeys)
		for i, key := range keys[:n] {
			hashes[2*i], hashes[2*i+1] = f.hash.Hash128(key)
		}
		f.MayContainMany(hashes[:2*n], out[:n])
		keys, out = keys[n:], out[n:]
	}
}

// CheckAndAdd adds key and reports whether it may have been there before.
func (f *Filter) CheckAndAdd(key []byte) bool { return f.CheckAndAddHash(f.hash.Hash128(key)) }

// Add adds key. A question that begins after Add has returned is answered with true. It
// allocates nothing. The error is nil unless f is the zero [AtomicBlocked].
func (f *AtomicBlocked) Add(key []byte) error {
	if len(f.lines) == 0 {
		return errZeroAtomic
	}
	f.AddHash(f.hasher.Hash(key))
	return nil
}

// AddString is Add for the bytes of s, which it does not copy.
func (f *AtomicBlocked) AddString(s string) error { return f.Add(form.Bytes(s)) }

// AddKeys is Add for each of keys.
func (f *AtomicBlocked) AddKeys(keys [][]byte) error {
	if len(f.lines) == 0 && len(keys) > 0 {
		return errZeroAtomic
	}
	var hashes [someKeys]uint64
	for len(keys) > 0 {
		n := hashSome(f.hasher, keys, &hashes)
		f.AddMany(hashes[:n])
		keys = keys[n:]
	}
	return nil
}

// MayContain reports whether key may have been added. False is certain for every key whose
// Add has returned.
func (f *AtomicBlocked) MayContain(key []byte) bool { return f.MayContainHash(f.hasher.Hash(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *AtomicBlocked) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *AtomicBlocked) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [someKeys]uint64
	out = askable(len(keys), out)
	for len(out) > 0 {
		n := hashSome(f.hasher, keys[:len(out)], &hashes)
		f.MayContainMany(hashes[:n], out[:n])
		keys, out = keys[n:], out[n:]
	}
}

// MayContain reports whether key may be in the filter: it is MayContainHash of Hash(key).
// False is certain.
func (f *Blocked) MayContain(key []byte) bool { return f.MayContainHash(Hash(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *Blocked) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Blocked) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [someKeys]uint64
	out = askable(len(keys), out)
	for len(out) > 0 {
		n := hashSome(Hasher{}, keys[:len(out)], &hashes)
		f.MayContainMany(hashes[:n], out[:n])
		keys, out = keys[n:], out[n:]
	}
}

// MayContain reports whether key may be in the filter: it is MayContainHash of Hash(key).
// False is certain.
func (f *Fuse) MayContain(key []byte) bool { return f.MayContainHash(Hash(key)) }

// MayContainString is MayContain for the bytes of s, which it does not copy.
func (f *Fuse) MayContainString(s string) bool { return f.MayContain(form.Bytes(s)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (f *Fuse) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [someKeys]uint64
	out = askable(len(keys), out)
	for len(out) > 0 {
		n := hashSome(Hasher{}, keys[:len(out)], &hashes)
		f.MayContainMany(hashes[:n], out[:n])
		keys, out = keys[n:], out[n:]
	}
}

// MayContain reports whether key may be in the filter: it is MayContainHash of the hash of
// key by the filter's Hasher. False is certain.
func (s *Static) MayContain(key []byte) bool { return s.MayContainHash(s.hasher.Hash(key)) }

// MayContainString is MayContain for the bytes of key, which it does not copy.
func (s *Static) MayContainString(key string) bool { return s.MayContain(form.Bytes(key)) }

// MayContainKeys sets out[i] to MayContain of keys[i]. If out is longer than keys, the rest
// of out becomes true.
func (s *Static) MayContainKeys(keys [][]byte, out []bool) {
	var hashes [someKeys]uint64
	out = askable(len(keys), out)
	for len(out) > 0 {
		n := hashSome(s.hasher, keys[:len(out)], &hashes)
		s.MayContainMany(hashes[:n], out[:n])
		keys, out = keys[n:], out[n:]
	}
}
