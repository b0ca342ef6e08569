package syndrome

// SectorSize is the number of bytes that a disk writes completely or not at all.
const SectorSize = 512

const (
	// wordSize is the smallest number of bytes that is copied at once. Only the bytes
	// before the first whole word, and after the last one, are copied in smaller parts.
	wordSize = 8
	// few: if a sector holds fewer bytes of a write than
	// this, wrong bytes there may look like a small error.
	few = 4
)

// These are the numbers of errors that a caller may look for. The bytes left by a torn
// write have a syndrome like a random number. So they look like a small error with a
// probability of at most Doubtful/2^32. Where nothing in them looks torn, a caller may risk
// Likely/2^32. An error of one bit may always be looked for: 32 KiB have 2^18 of them.
const (
	Doubtful = 1 << 16
	Likely   = 1 << 22
)

// A Piece is a part of a file that was written with one call and has an error.
//
// Its methods say what a crash may have done to it. A write that a crash cuts short
// leaves older bytes in whole sectors. A sector that was on its way to the disk
// while it was written may have older bytes from some byte up, or in some words.
type Piece struct {
	Off   int64  // offset in the file
	Bytes []byte // as they were read
}

// Sector returns the range of p's bytes that are in the sector of byte pos.
func (p Piece) Sector(pos int) (from, to int) {
	in := int((p.Off + int64(pos)) % SectorSize)
	return max(0, pos-in), min(len(p.Bytes), pos-in+SectorSize)
}

// EndsInZeros reports whether p has a zero at the end of any of
// its sectors, as if the rest of the sector had not been written.
func (p Piece) EndsInZeros() bool {
	for from, to := 0, 0; to < len(p.Bytes); from = to {
		if _, to = p.Sector(from); p.Bytes[to-1] == 0 {
			return true
		}
	}
	return false
}

// MayBeOldZero reports whether byte pos may be one of the zeros that were there before p
// was written. It must be zero, and one of these must hold for it and the zeros next to it:
//
//   - they reach to the end of the sector or of p;
//   - they are as long as a word;
//   - they reach from the beginning of p to this byte,
//     and the byte lies before the first whole word.
func (p Piece) MayBeOldZero(pos int) bool {
	if p.Bytes[pos] != 0 {
		return false
	}
	from, to := p.Sector(pos)
	i, j := pos, pos+1
	for i > from && p.Bytes[i-1] == 0 {
		i--
	}
	for j < to && p.Bytes[j] == 0 {
		j++
	}
	return j == to || j-i >= wordSize || i == 0 && pos < p.head()
}

// MayBeOld reports whether any byte of p may be one of the zeros that were there before.
func (p Piece) MayBeOld() bool {
	for pos := range p.Bytes {
		if p.MayBeOldZero(pos) {
			return true
		}
	}
	return false
}

// Few reports whether the sector of byte pos has so few bytes
// of p that wrong bytes there may look like a small error.
func (p Piece) Few(pos int) bool {
	from, to := p.Sector(pos)
	return to-from < few
}

// InCutWord reports whether p begins inside the word of byte pos, and has so
// few bytes of that word that wrong bytes there may look like a small error.
func (p Piece) InCutWord(pos int) bool {
	return pos < p.head() && p.head() < few
}

// head returns the number of bytes of p before its first whole word.
func (p Piece) head() int { return int(-p.Off & (wordSize - 1)) }

// MayBeAlike reports whether older, unrelated bytes may be equal to those of
// p by chance: to those from pos to the end of the sector, or to all in the
// sector. It returns true if these bytes are few or almost all the same.
func (p Piece) MayBeAlike(pos int) bool {
	from, to := p.Sector(pos)
	return changes(p.Bytes[pos:to]) < few || changes(p.Bytes[from:to]) < few
}

// changes returns how many bytes of b differ from the byte before them.
func changes(b []byte) (n int) {
	for i := 1; i < len(b); i++ {
		if b[i] != b[i-1] {
			n++
		}
	}
	return n
}
