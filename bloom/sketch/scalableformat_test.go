package sketch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
)

// A filter whose hash function has no id cannot be written, and the zero filter neither.
func TestScalableFormat_Unwritable(t *testing.T) {
	s := scalableOf(t, 10, 0.01, ScalableOptions{Hash: ownHash}, 5)
	if _, err := s.MarshalBinary(); !errors.Is(err, bloom.ErrNoHashID) {
		t.Errorf("Scalable: %v", err)
	}
	if _, err := new(Scalable).MarshalBinary(); err == nil {
		t.Error("the zero Scalable is written")
	}
}

// Values that no writer makes are refused, also with a checksum that fits.
func TestScalableFormat_Impossible(t *testing.T) {
	scalable := filtertest.Marshal(t, scalableOf(t, 10, 0.01, ScalableOptions{}, 60)) // three layers
	put32, put64 := binary.LittleEndian.PutUint32, binary.LittleEndian.PutUint64
	m := len(scalable) - form.TrailerLen
	layers := m - 8 - 3*layerLen
	for _, c := range []struct {
		name   string
		change func(s []byte)
	}{
		{"keys", func(s []byte) { put32(s[m+8:], 61) }},
		{"no probes", func(s []byte) { put64(s[layers+24:], 0) }},
		{"too many probes", func(s []byte) { put64(s[layers+24:], bloom.MaxProbes+1) }},
		{"reserved", func(s []byte) { s[m+16] = 1 }},
		{"bits", func(s []byte) { put64(s[layers+16:], 63) }},
		{"no bits", func(s []byte) { put64(s[layers+16:], 0) }},
		{"bits of another length", func(s []byte) { put64(s[layers+16:], 64) }},
		{"most bits", func(s []byte) { put64(s[layers+16:], math.MaxUint64-63) }},
		{"count", func(s []byte) { put64(s[layers+8:], 1<<40) }},
		{"no layers", func(s []byte) { put32(s[m+12:], 0) }},
		{"too many layers", func(s []byte) { put32(s[m+12:], maxLayers+1) }},
		{"most layers", func(s []byte) { put32(s[m+12:], math.MaxUint32) }},
		{"layers that do not scale", func(s []byte) { s[m+3] = 1 }},
		{"flags", func(s []byte) { s[m+3] = 2 }},
		{"expansion", func(s []byte) { put32(s[m+4:], 0) }},
		{"large expansion", func(s []byte) { put32(s[m+4:], MaxExpansion+1) }},
		{"rate", func(s []byte) { put64(s[m-8:], math.Float64bits(1)) }},
		{"NaN as a rate", func(s []byte) { put64(s[m-8:], math.Float64bits(math.NaN())) }},
		{"more keys than a layer takes", func(s []byte) { put64(s[layers+8:], 11); put64(s[layers+2*layerLen+8:], 29) }},
		{"capacity", func(s []byte) { put64(s[layers:], 0) }},
	} {
		s := bytes.Clone(scalable)
		c.change(s)
		if _, err := OpenScalable(filtertest.Reseal(s)); !errors.Is(err, bloom.ErrDamaged) {
			t.Errorf("Scalable, %s: %v", c.name, err)
		}
	}
}
