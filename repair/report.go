package repair

import (
	"bytes"
)

// A Report says what Run has saved, what it found, and what it left.
type Report struct {
	Manifest string // that was read; empty: none is readable

	// AsOf is the sequence number of the last commit that the new store holds,
	// but for keys that are lost, left, or taken though doubtful. If AtLeast is
	// set, it holds some later ones too, of which the numbers are lost.
	AsOf    uint64
	AtLeast bool

	// What was written to the new store.
	Keys                 uint64
	KeyBytes, ValueBytes int64

	Doubtful bool // what is in Left was taken: Options.Doubtful was set
	Findings []Finding
	Left     []Left
}

// A Left is a source of entries that are authentic, and of which it is doubtful
// whether they are the newest of their keys.
type Left struct {
	File string // where they are, or what makes them doubtful
	Why  string

	// Entries is how many values were left, or taken. Of logs and tables that
	// were left whole it is how many entries they have, deletions and older
	// versions too.
	Entries uint64
	Samples [][]byte // some of the keys

	Keys              Keys   // where the entries are
	Commits           uint64 // of a log
	FirstSeq, LastSeq uint64 // their sequence numbers; of a gap, those of what is lost
}

// note counts a key.
func (l *Left) note(key []byte) {
	l.Entries++
	if len(l.Samples) < maxSamples {
		l.Samples = append(l.Samples, bytes.Clone(key))
	}
}

// Whole tells whether the new store holds all that the old one held.
func (r *Report) Whole() bool {
	for i := range r.Findings {
		if r.Findings[i].Harm > Redundant {
			return false
		}
	}
	return len(r.Left) == 0
}

func damaged(findings []Finding) bool {
	for i := range findings {
		if findings[i].Damage() {
			return true
		}
	}
	return false
}
