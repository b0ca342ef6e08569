package shale

import (
	"errors"
	"io"
	"io/fs"

	"github.com/shaledb/shale/wal"
)

// This file decides whether an attempt to follow a writer that has failed is followed by another one.

// A patience decides whether an attempt to advance that has failed is followed by another one.
//
// Next to a writer an attempt may fail although nothing is damaged: a file is removed before it is opened, or a log is
// cut off or used again while it is read. How many attempts in a row meet that depends on how seldom this process gets
// to run, and on how slow its disk is. So neither their number nor the time that they take tells such a race from
// damage, but this does: the writer takes a file away only after the manifest has ceased to name it, and never gives
// its number to another one. The next attempt begins with the manifest, so it does not need that file again. A race
// brings another error each time, and each of them shows that the writer has got further. An error that comes again is
// damage, and reported when it has come three times. Without a race that takes a few milliseconds. Only the reserve behind
// the end of the newest log may go without the manifest, so a read that the end of the file cuts short is no damage.
type patience struct {
	came  map[string]int // how often each error has come that a writer can cause
	twice bool           // one of them has come twice
	still int            // attempts in a row that have read the same manifest
	other bool           // there was an error that no writer causes
}

// stillAttempts is how many attempts in a row may fail without a change of the manifest. A race with the writer ends
// sooner.
const stillAttempts = 10

// again reports whether there should be another attempt after err. changed says that the attempt that has failed has
// read another manifest than the one before it, or more of it.
func (p *patience) again(err error, changed bool) bool {
	var damage *CorruptionError
	race := errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, wal.ErrAnother) || errors.Is(err, ErrReplaced) || errors.Is(err, ErrElsewhere)
	switch {
	case errors.Is(err, ErrFormatTooNew):
		return false
	case !race: // for example that there are no more descriptors: it may have passed
		again := !p.other
		p.other = true
		return again
	}
	if p.still++; changed {
		p.still = 0
	}
	if p.came == nil {
		p.came = make(map[string]int)
	}
	p.came[err.Error()]++
	n := p.came[err.Error()]
	p.twice = p.twice || n > 1
	cutShort := errors.Is(err, io.ErrUnexpectedEOF) && damage == nil
	return (n < 3 || cutShort) && p.still < stillAttempts
}
