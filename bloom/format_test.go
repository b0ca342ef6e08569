package bloom

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/shaledb/shale/bloom/internal/filtertest"
	"github.com/shaledb/shale/bloom/internal/form"
	"github.com/shaledb/shale/bloom/internal/lines"
)

// specBits returns the line and the bits of a key as docs/FORMAT.md says, word
// by word and with big numbers, to hold the document and the code together.
func specBits(g, lines uint64, k int) (line uint64, set []int) {
	product := new(big.Int).Mul(new(big.Int).SetUint64(g), new(big.Int).SetUint64(lines))
	line = product.Rsh(product, 64).Uint64()
	for i := range k {
		p := g * 0x9e3779b97f4a7c15
		if i >= 7 {
			p = (g ^ g>>32) * 0xd6e8feb86659fd93
		}
		top := 64 - 9*(i%7) // the field's upper end
		set = append(set, int(p>>(top-9)&511))
	}
	return line, set
}

// specUnits returns the lines that a filter with this trailer has.
func specUnits(t trailer, hashes []uint64) []byte {
	first := make([]byte, t.lines[0]*64)
	second := make([]byte, t.lines[1]*64)
	for _, h := range hashes {
		line, set := specBits(h, uint64(t.lines[0]), int(t.k[0]))
		for _, q := range set {
			first[int(line)*64+q/8] |= 1 << (q % 8)
		}
		if t.units == 2 {
			g := (h ^ h>>29) * 0xbf58476d1ce4e5b9
			g = g<<32 | g>>32
			line, set = specBits(g, uint64(t.lines[1]), int(t.k[1]))
			for _, q := range set {
				second[int(line)*64+q/8] |= 1 << (q % 8)
			}
		}
	}
	return append(first, second...)
}

func TestFormat_AsDocumented(t *testing.T) {
	hs := filtertest.RandomHashes(1, 700)
	for _, bits := range everyWidth {
		b := AppendBlocked(nil, hs, bits)
		tr, err := parseTrailer(b, int64(len(b)), onlyMurmur3)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b[:len(b)-form.TrailerLen], specUnits(tr, hs)) {
			t.Errorf("the lines of a filter of %v bits are not as documented", bits)
		}
	}
	// Probe numbers that no writer chooses yet but a reader must understand.
	for k := uint32(firstK); k <= maxK; k++ {
		tr := trailer{head: head{keys: uint32(len(hs))}, units: 2, k: [2]uint32{k, maxK + firstK - k}, lines: [2]uint32{30, 17}}
		b := append(specUnits(tr, hs), make([]byte, form.TrailerLen)...)
		tr.put(b)
		f := mustOpen(b)
		checkHolds(t, f, hs)
		for _, h := range filtertest.RandomHashes(2, 3000) {
			want := true
			for i, g := range []uint64{h, lines.SecondHash(h)} {
				line, set := specBits(g, uint64(tr.lines[i]), int(tr.k[i]))
				for _, q := range set {
					at := int(line)*64 + q/8 + i*int(tr.lines[0])*64
					want = want && b[at]>>(q%8)&1 == 1
				}
			}
			if got := f.MayContainHash(h); got != want {
				t.Fatalf("%d and %d probes: MayContain(%016x) = %v, want %v", tr.k[0], tr.k[1], h, got, want)
			}
		}
	}
}
