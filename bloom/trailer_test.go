package bloom

import (
	"encoding/binary"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// Values that no writer of this version makes are refused, also with a checksum that fits.
func TestOpenBlocked_ImpossibleFields(t *testing.T) {
	one := AppendBlocked(nil, filtertest.RandomHashes(3, 60), 10)
	two := AppendBlocked(nil, filtertest.RandomHashes(3, 60), 20)
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		filter []byte
		change func(trailer []byte)
	}{
		{"no unit", one, func(b []byte) { b[3] = 0 }},
		{"three units", two, func(b []byte) { b[3] = 3 }},
		{"two units, one there", one, func(b []byte) { b[3] = 2 }},
		{"one unit, two there", two, func(b []byte) { b[3] = 1 }},
		{"0 probes", one, func(b []byte) { b[4] = 0 }},
		{"2 probes", one, func(b []byte) { b[4] = firstK - 1 }},
		{"15 probes", one, func(b []byte) { b[4] = maxK + 1 }},
		{"2 probes in the second", two, func(b []byte) { b[5] = firstK - 1 }},
		{"15 probes in the second", two, func(b []byte) { b[5] = maxK + 1 }},
		{"probes without a second unit", one, func(b []byte) { b[5] = 6 }},
		{"reserved byte 6", one, func(b []byte) { b[6] = 1 }},
		{"reserved byte 7", one, func(b []byte) { b[7] = 1 }},
		{"a line more", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])+1) }},
		{"a line less", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])-1) }},
		{"most lines", one, func(b []byte) { le.PutUint32(b[12:], 1<<32-1) }},
		{"most lines twice", two, func(b []byte) { le.PutUint64(b[12:], 1<<64-1) }},
		{"lines that wrap in 32 bits", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])+1<<26) }},
		{"all lines in the second unit", two, func(b []byte) {
			le.PutUint32(b[16:], le.Uint32(b[12:])+le.Uint32(b[16:]))
			le.PutUint32(b[12:], 0)
		}},
		{"all lines in the first unit", two, func(b []byte) {
			le.PutUint32(b[12:], le.Uint32(b[12:])+le.Uint32(b[16:]))
			le.PutUint32(b[16:], 0)
		}},
	} {
		b := append([]byte(nil), c.filter...)
		c.change(b[len(b)-form.TrailerLen:])
		filtertest.CheckRefused(t, OpenBlocked, c.name, filtertest.Reseal(b), ErrDamaged)
	}
	no := make([]byte, form.TrailerLen)
	(&trailer{head: head{keys: 1}, units: 1, k: [2]uint32{6}}).put(no)
	filtertest.CheckRefused(t, OpenBlocked, "no lines at all", no, ErrDamaged)
}
