package repair

import (
	"bytes"
)

// A Report says what Run has saved, what it has found, and what it has left.
type Report struct {
	Manifest string // name of the manifest that was read; empty: none can be read

	// AsOf is the sequence number of the last commit that the new store holds. Keys that
	// are lost or left are missing, and keys that were taken although doubtful may differ.
	// If AtLeast is set, the store also holds some later commits, whose numbers are lost.
	AsOf    uint64
	AtLeast bool

	// The number of keys of the new store, and the bytes of its keys and values.
	Keys                 uint64
	KeyBytes, ValueBytes int64

	// The tables that were given up because the store keeps them elsewhere, and how many bytes they had: Options.GiveUp was
	// set. Each is in Findings with the range of its keys.
	GivenUp      int
	GivenUpBytes int64

	Doubtful bool      // the entries in Left were taken: Options.Doubtful was set
	Findings []Finding // what is wrong in the old store
	Left     []Left    // what is authentic in it and not proven
}

// A Left is a source of entries that are authentic, but perhaps not the newest
// versions of their keys.
type Left struct {
	File string // file that has the entries, or that makes them doubtful
	Why  string // why they are doubtful, in words

	// Entries is how many values were left, or taken. For logs and tables that
	// were left as a whole it is the number of all their entries, including
	// deletions and older versions.
	Entries uint64
	Samples [][]byte // some of the keys; copies

	Keys              Keys   // the range of the entries' keys
	Commits           uint64 // number of commits, if File is a log
	FirstSeq, LastSeq uint64 // the commits' sequence numbers; for a gap those of what is lost
}

// note counts a key, and keeps some as samples.
func (l *Left) note(key []byte) {
	l.Entries++
	if len(l.Samples) < maxSamples {
		l.Samples = append(l.Samples, bytes.Clone(key))
	}
}

// Whole reports whether the new store holds everything that the old one held.
func (r *Report) Whole() bool {
	for i := range r.Findings {
		if r.Findings[i].Harm > Redundant {
			return false
		}
	}
	return len(r.Left) == 0
}

// damaged reports whether one of the findings is damage.
func damaged(findings []Finding) bool {
	for i := range findings {
		if findings[i].Damage() {
			return true
		}
	}
	return false
}
