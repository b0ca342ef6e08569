package main

import (
	"encoding/binary"
	"math/rand/v2"
)

// values makes values that halve under snappy: 48 random bytes and 52 zeros.
type values struct {
	r   *rand.Rand
	buf [valueSize]byte
}

func newValues() *values { return &values{r: rand.New(rand.NewPCG(3, 4))} }

// next is valid until the next call.
func (v *values) next() []byte {
	for i := 0; i < 48; i += 8 {
		binary.LittleEndian.PutUint64(v.buf[i:], v.r.Uint64())
	}
	return v.buf[:]
}
