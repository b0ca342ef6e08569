package repair

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// A Harm says what the damage of a Finding has cost. The values are ordered: a
// higher one is worse.
type Harm int

// The harms, from none to the worst.
const (
	// Stray is no damage: nothing names the file. Usually a crash has left it, and the next
	// Open removes it. It may be needed if the manifest that named it is damaged.
	Stray Harm = iota
	// Redundant: the damaged part can be made again from other parts. No entry is lost, but
	// the store may not open, or may be slow.
	Redundant
	// LostEntries: entries of a table are lost. Their keys are in the range Keys, and their
	// sequence numbers are at most LastSeq.
	LostEntries
	// LostCommits: writes are lost. Their sequence numbers are from FirstSeq to LastSeq at
	// most. LastSeq 0 means that the end is unknown.
	LostCommits
	// LostState: it is unknown which tables and logs make up the store, or known
	// only for an earlier time.
	LostState
)

// A Finding is a file, or a place in a file, that is not as it should be.
type Finding struct {
	File   string // name within the store's folder
	Offset int64  // in bytes; -1: no single place is wrong
	Err    error  // what is wrong; mostly a *shale.CorruptionError
	Harm   Harm

	// What is lost at most: see Harm.
	Keys              Keys
	FirstSeq, LastSeq uint64
}

// Damage reports whether the finding is damage.
func (f *Finding) Damage() bool { return f.Harm != Stray }

// What returns in words what is wrong.
func (f *Finding) What() string {
	if c, ok := f.Err.(*base.CorruptionError); ok {
		return fmt.Sprintf("%s: %v", c.Part, c.Err)
	}
	return f.Err.Error()
}

// Meaning returns in words what the finding has cost. quote prints a key.
func (f *Finding) Meaning(quote func(key []byte) string) string {
	switch f.Harm {
	case Stray:
		return "nothing names it"
	case Redundant:
		return "no entry is lost"
	case LostEntries:
		return fmt.Sprintf("entries are lost: %s, sequence numbers up to %d", f.Keys.Format(quote), f.LastSeq)
	case LostCommits:
		switch {
		case f.LastSeq == 0:
			return fmt.Sprintf("writes are lost: from sequence number %d up", f.FirstSeq)
		case f.LastSeq == f.FirstSeq:
			return fmt.Sprintf("a write is lost: sequence number %d", f.FirstSeq)
		}
		return fmt.Sprintf("writes are lost: sequence numbers %d to %d", f.FirstSeq, f.LastSeq)
	}
	return "tables and logs are known only as far as a manifest can be read"
}

// found makes a finding from an error. If err says which file and offset it is
// about, these replace file.
func found(file string, err error, harm Harm) Finding {
	f := Finding{File: file, Offset: -1, Err: err, Harm: harm}
	var c *base.CorruptionError
	if errors.As(err, &c) {
		f.File, f.Offset = c.File, c.Offset
	}
	return f
}

// isDamage reports whether err is damage to the store. Other errors kept repair
// from looking.
func isDamage(err error) bool {
	var c *base.CorruptionError
	return errors.As(err, &c)
}

// Keys is a range of user keys. The zero value is all keys.
type Keys struct {
	Lower    []byte // the first key; nil: there is no lower bound
	LowerOut bool   // the range begins after Lower
	Upper    []byte // the last key; nil: there is no upper bound
}

// Contains reports whether key is in the range.
func (k *Keys) Contains(key []byte) bool {
	if k.Lower != nil {
		if c := bytes.Compare(key, k.Lower); c < 0 || c == 0 && k.LowerOut {
			return false
		}
	}
	return k.Upper == nil || bytes.Compare(key, k.Upper) <= 0
}

// Format returns the range in words. quote prints a key.
func (k *Keys) Format(quote func(key []byte) string) string {
	from := "from the first key"
	if k.Lower != nil && k.LowerOut {
		from = "after " + quote(k.Lower)
	} else if k.Lower != nil {
		from = "from " + quote(k.Lower)
	}
	if k.Upper == nil {
		return from + " to the last key"
	}
	return from + " to " + quote(k.Upper)
}

// String returns the range in words, with keys in Go syntax.
func (k Keys) String() string {
	return k.Format(func(key []byte) string { return fmt.Sprintf("%q", key) })
}
