package syndrome

import (
	"bytes"
	"testing"
)

func TestPiece(t *testing.T) {
	b := bytes.Repeat([]byte("abcdefg"), 200) // from 500: 12 bytes, 512, 512, 364
	p := Piece{Off: 500, Bytes: b}
	for _, tt := range []struct{ pos, from, to int }{{0, 0, 12}, {11, 0, 12}, {12, 12, 524}, {523, 12, 524}, {1399, 1036, 1400}} {
		if from, to := p.Sector(tt.pos); from != tt.from || to != tt.to {
			t.Errorf("Sector(%d) = %d, %d, want %d, %d", tt.pos, from, to, tt.from, tt.to)
		}
	}
	for _, tt := range []struct {
		name     string
		from, to int // zeros
		pos      int
		old      bool
		ends     bool
	}{
		{"none", 0, 0, 3, false, false},
		{"inside a sector", 20, 23, 21, false, false},
		{"inside a sector, as long as a word", 20, 28, 27, true, false},
		{"beside them", 20, 28, 28, false, false},
		{"up to the end of a sector", 10, 12, 10, true, true},
		{"one at the end of a sector", 523, 524, 523, true, true},
		{"one at the end", 1399, 1400, 1399, true, true},
		{"in front of the first word", 0, 2, 1, true, false},
		{"from the beginning into the first word", 0, 6, 5, false, false},
		{"at the beginning of a sector", 12, 14, 12, false, false},
	} {
		p := Piece{Off: 500, Bytes: bytes.Clone(b)}
		clear(p.Bytes[tt.from:tt.to])
		if any := p.MayBeOld(); tt.old && !any || any && tt.name == "none" {
			t.Errorf("zeros %s: MayBeOld = %v", tt.name, any)
		}
		if old, ends := p.MayBeOldZero(tt.pos), p.EndsInZeros(); old != tt.old || ends != tt.ends {
			t.Errorf("zeros %s: MayBeOldZero(%d) = %v, EndsInZeros = %v, want %v, %v", tt.name, tt.pos, old, ends, tt.old, tt.ends)
		}
	}
	p = Piece{Off: 510, Bytes: []byte("ab" + "cdefghij" + "xxxxxxxxxx")}
	for pos, want := range []struct{ few, alike bool }{{true, true}, {true, true}, {false, false}, {false, false}} {
		if p.Few(pos) != want.few || p.MayBeAlike(pos) != want.alike {
			t.Errorf("Few(%d) = %v, MayBeAlike = %v, want %v", pos, p.Few(pos), p.MayBeAlike(pos), want)
		}
	}
	for off, want := range map[int64][]bool{600: {false, false}, 604: {false, false}, 605: {true, true, true, false}, 607: {true, false}} {
		p := Piece{Off: off, Bytes: []byte("abcdefghijklmnop")}
		for pos, want := range want {
			if p.InCutWord(pos) != want {
				t.Errorf("at %d: InCutWord(%d) = %v", off, pos, !want)
			}
		}
	}
	if !p.MayBeAlike(9) {
		t.Error("MayBeAlike does not see what is uniform from a byte on")
	}
}
