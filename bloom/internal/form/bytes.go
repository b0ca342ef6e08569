package form

import "unsafe"

// Bytes returns the bytes of s without a copy. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
