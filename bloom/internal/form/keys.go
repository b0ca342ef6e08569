package form

import "unsafe"

// Bytes returns the bytes of s without a copy. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// AddKeys adds keys one after the other, until the first error.
func AddKeys(f interface{ Add(key []byte) error }, keys [][]byte) error {
	for _, key := range keys {
		if err := f.Add(key); err != nil {
			return err
		}
	}
	return nil
}

// MayContainKeys sets out[i] to the answer for keys[i], and the rest of out to maybe.
func MayContainKeys(f interface{ MayContain(key []byte) bool }, keys [][]byte, out []bool) {
	for i := range out {
		out[i] = i >= len(keys) || f.MayContain(keys[i])
	}
}
