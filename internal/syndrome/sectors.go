package syndrome

// SectorSize is what a disk writes whole or not at all.
const SectorSize = 512

const (
	// wordSize is the least that is copied at once, but for the bytes in front of the first whole word and behind the last.
	wordSize = 8
	// few is how few bytes of a write a sector may hold for garbage in it to look like a small error.
	few = 4
)

// How many errors a caller may look for. Bytes that a torn write has left have a syndrome like a random number, so they
// pass for a small error with a probability of at most Doubtful/2^32, or Likely/2^32 where nothing in them looks torn. A
// single bit may always be looked for: in 32 KiB there are 2^18.
const (
	Doubtful = 1 << 16
	Likely   = 1 << 22
)

// A Piece is a part of a file that was written at once and has an error.
//
// Its methods tell what a crash may have made of it. A write that a crash cut short leaves older bytes in whole sectors;
// a sector that was on its way to the disk while it was written may have older bytes from some byte on, or in some words.
type Piece struct {
	Off   int64  // in the file
	Bytes []byte // as they are
}

// Sector returns the stretch of p that is in the sector of byte pos.
func (p Piece) Sector(pos int) (from, to int) {
	in := int((p.Off + int64(pos)) % SectorSize)
	return max(0, pos-in), min(len(p.Bytes), pos-in+SectorSize)
}

// EndsInZeros tells whether p has a zero at the end of any of its sectors, as if the rest had not been written.
func (p Piece) EndsInZeros() bool {
	for from, to := 0, 0; to < len(p.Bytes); from = to {
		if _, to = p.Sector(from); p.Bytes[to-1] == 0 {
			return true
		}
	}
	return false
}

// MayBeOldZero tells whether byte pos may be one of the zeros that were there before p was written. It is zero, and with
// the zeros next to it, it reaches to the end of the sector or of p, or is as long as a word, or it lies with nothing but
// zeros between the beginning of p and its first whole word.
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

// MayBeOld tells whether any byte of p may be one of the zeros that were there before.
func (p Piece) MayBeOld() bool {
	for pos := range p.Bytes {
		if p.MayBeOldZero(pos) {
			return true
		}
	}
	return false
}

// Few tells whether the sector of byte pos has so few bytes of p that anything there may look like a small error.
func (p Piece) Few(pos int) bool {
	from, to := p.Sector(pos)
	return to-from < few
}

// InCutWord tells whether p begins within a word that holds byte pos and so few others that anything there may look like
// a small error.
func (p Piece) InCutWord(pos int) bool {
	return pos < p.head() && p.head() < few
}

// head returns how many bytes p has in front of its first whole word.
func (p Piece) head() int { return int(-p.Off & (wordSize - 1)) }

// MayBeAlike tells whether the bytes of p from pos to the end of the sector, or all in the sector, are so few or so uniform that older bytes
// that have nothing to do with them may be the same by chance.
func (p Piece) MayBeAlike(pos int) bool {
	from, to := p.Sector(pos)
	return changes(p.Bytes[pos:to]) < few || changes(p.Bytes[from:to]) < few
}

// changes returns how many bytes differ from the one before.
func changes(b []byte) (n int) {
	for i := 1; i < len(b); i++ {
		if b[i] != b[i-1] {
			n++
		}
	}
	return n
}
