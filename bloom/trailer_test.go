package bloom

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A flipped bit could make the filter deny a key that it holds. So every changed
// byte must be an error.
func TestOpenBlocked_EveryBitFlipped(t *testing.T) {
	for _, bits := range []float64{10, 20} {
		good := AppendBlocked(nil, filtertest.RandomHashes(1, 60), bits)
		for i := range good {
			for bit := range 8 {
				b := append([]byte(nil), good...)
				b[i] ^= 1 << bit
				want := ErrDamaged
				if i >= len(good)-form.TrailerLen && i < len(good)-form.TrailerLen+3 {
					want = ErrUnknown // kind, version, hash
				}
				filtertest.CheckRefused(t, OpenBlocked, "flipped", b, want)
			}
		}
	}
}

func TestOpenBlocked_AnyOtherLength(t *testing.T) {
	for _, bits := range []float64{10, 20} {
		good := AppendBlocked(nil, filtertest.RandomHashes(2, 60), bits)
		for n := range good {
			filtertest.CheckRefused(t, OpenBlocked, "cut at the end", good[:n], nil)
			if n > 0 {
				filtertest.CheckRefused(t, OpenBlocked, "cut at the front", good[n:], nil)
			}
		}
		filtertest.CheckRefused(t, OpenBlocked, "a byte more", append(good[:len(good):len(good)], 0), nil)
		filtertest.CheckRefused(t, OpenBlocked, "a line more in front", append(make([]byte, lineBytes), good...), ErrDamaged)
		filtertest.CheckRefused(t, OpenBlocked, "zeros", make([]byte, len(good)), ErrUnknown)
		filtertest.CheckRefused(t, OpenBlocked, "ones", bytes.Repeat([]byte{0xff}, len(good)), ErrUnknown)
	}
	filtertest.CheckRefused(t, OpenBlocked, "nil", nil, ErrDamaged)
}

// Values that no writer of this version makes are refused, also with a checksum that fits.
func TestOpenBlocked_ImpossibleFields(t *testing.T) {
	one := AppendBlocked(nil, filtertest.RandomHashes(3, 60), 10)
	two := AppendBlocked(nil, filtertest.RandomHashes(3, 60), 20)
	le := binary.LittleEndian
	for _, c := range []struct {
		name   string
		filter []byte
		change func(trailer []byte)
		want   error
	}{
		{"kind 0", one, func(b []byte) { b[0] = 0 }, ErrUnknown},
		{"next kind", one, func(b []byte) { b[0]++ }, ErrUnknown},
		{"version 0", one, func(b []byte) { b[1] = 0 }, ErrUnknown},
		{"next version", one, func(b []byte) { b[1]++ }, ErrUnknown},
		{"hash 0", one, func(b []byte) { b[2] = 0 }, ErrUnknown},
		{"next hash", one, func(b []byte) { b[2]++ }, ErrUnknown},
		{"seed", one, func(b []byte) { le.PutUint64(b[20:], 1) }, ErrUnknown},
		{"high byte of the seed", one, func(b []byte) { b[27] = 1 }, ErrUnknown},
		{"no unit", one, func(b []byte) { b[3] = 0 }, ErrDamaged},
		{"three units", two, func(b []byte) { b[3] = 3 }, ErrDamaged},
		{"two units, one there", one, func(b []byte) { b[3] = 2 }, ErrDamaged},
		{"one unit, two there", two, func(b []byte) { b[3] = 1 }, ErrDamaged},
		{"0 probes", one, func(b []byte) { b[4] = 0 }, ErrDamaged},
		{"2 probes", one, func(b []byte) { b[4] = firstK - 1 }, ErrDamaged},
		{"15 probes", one, func(b []byte) { b[4] = maxK + 1 }, ErrDamaged},
		{"2 probes in the second", two, func(b []byte) { b[5] = firstK - 1 }, ErrDamaged},
		{"15 probes in the second", two, func(b []byte) { b[5] = maxK + 1 }, ErrDamaged},
		{"probes without a second unit", one, func(b []byte) { b[5] = 6 }, ErrDamaged},
		{"reserved byte 6", one, func(b []byte) { b[6] = 1 }, ErrDamaged},
		{"reserved byte 7", one, func(b []byte) { b[7] = 1 }, ErrDamaged},
		{"a line more", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])+1) }, ErrDamaged},
		{"a line less", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])-1) }, ErrDamaged},
		{"most lines", one, func(b []byte) { le.PutUint32(b[12:], 1<<32-1) }, ErrDamaged},
		{"most lines twice", two, func(b []byte) { le.PutUint64(b[12:], 1<<64-1) }, ErrDamaged},
		{"lines that wrap in 32 bits", one, func(b []byte) { le.PutUint32(b[12:], le.Uint32(b[12:])+1<<26) }, ErrDamaged},
		{"all lines in the second unit", two, func(b []byte) {
			le.PutUint32(b[16:], le.Uint32(b[12:])+le.Uint32(b[16:]))
			le.PutUint32(b[12:], 0)
		}, ErrDamaged},
		{"all lines in the first unit", two, func(b []byte) {
			le.PutUint32(b[12:], le.Uint32(b[12:])+le.Uint32(b[16:]))
			le.PutUint32(b[16:], 0)
		}, ErrDamaged},
	} {
		b := append([]byte(nil), c.filter...)
		c.change(b[len(b)-form.TrailerLen:])
		filtertest.CheckRefused(t, OpenBlocked, c.name, filtertest.Reseal(b), c.want)
	}
	no := make([]byte, form.TrailerLen)
	(&trailer{head: head{keys: 1}, units: 1, k: [2]uint32{6}}).put(no)
	filtertest.CheckRefused(t, OpenBlocked, "no lines at all", no, ErrDamaged)
}
