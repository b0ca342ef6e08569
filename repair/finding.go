package repair

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
)

// A Harm says what a Finding has cost.
type Harm int

// The harms.
const (
	// Stray is no damage: nothing names the file. A crash left it, and the next
	// Open removes it; unless the manifest that named it is damaged.
	Stray Harm = iota
	// Redundant: what is damaged can be made anew from what is there. No entry
	// is lost, though the store may not open or may be slow.
	Redundant
	// LostEntries: entries of a table are lost, those with the keys Keys and
	// sequence numbers up to LastSeq at most.
	LostEntries
	// LostCommits: writes are lost, with the sequence numbers from FirstSeq to
	// LastSeq at most; LastSeq 0: nobody knows to where.
	LostCommits
	// LostState: which tables and logs make up the store is not known, or only
	// as it was some time ago.
	LostState
)

// A Finding is a file, or a place in one, that is not as it should be.
type Finding struct {
	File   string // name within the store's folder
	Offset int64  // in bytes; -1: no single place is at fault
	Err    error  // what is wrong; mostly a *shale.CorruptionError
	Harm   Harm

	Keys              Keys
	FirstSeq, LastSeq uint64
}

// Damage tells whether something is damaged.
func (f *Finding) Damage() bool { return f.Harm != Stray }

// What says in words what is wrong.
func (f *Finding) What() string {
	if c, ok := f.Err.(*base.CorruptionError); ok {
		return fmt.Sprintf("%s: %v", c.Part, c.Err)
	}
	return f.Err.Error()
}

// Meaning says in words what that means. quote prints a key.
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
			return fmt.Sprintf("writes are lost: from sequence number %d on", f.FirstSeq)
		case f.LastSeq == f.FirstSeq:
			return fmt.Sprintf("a write is lost: sequence number %d", f.FirstSeq)
		}
		return fmt.Sprintf("writes are lost: sequence numbers %d to %d", f.FirstSeq, f.LastSeq)
	}
	return "tables and logs are known only as far as a manifest can be read"
}

// found makes the finding for an error.
func found(file string, err error, harm Harm) Finding {
	f := Finding{File: file, Offset: -1, Err: err, Harm: harm}
	var c *base.CorruptionError
	if errors.As(err, &c) {
		f.File, f.Offset = c.File, c.Offset
	}
	return f
}

// isDamage tells damage from what keeps from looking.
func isDamage(err error) bool {
	var c *base.CorruptionError
	return errors.As(err, &c)
}

// Keys is a range of user keys.
type Keys struct {
	Lower    []byte // nil: from the first key
	LowerOut bool   // Lower itself is not in the range
	Upper    []byte // the last one; nil: to the last key
}

// Contains tells whether key is in the range.
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

func (k Keys) String() string {
	return k.Format(func(key []byte) string { return fmt.Sprintf("%q", key) })
}
