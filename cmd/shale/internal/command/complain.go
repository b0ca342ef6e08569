package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// missingStore is the error for a folder without a store.
type missingStore string

func (dir missingStore) Error() string {
	return fmt.Sprintf("there is no store in %s; put, batch and import make one, -C names another", output.Quote(string(dir)))
}

func (dir missingStore) Is(target error) bool { return target == fs.ErrNotExist }

// A sentence says in plain words what an error of the store means.
type sentence struct {
	text string
	err  error // what the store said
}

func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.err }

// openError says why the store in dir does not open.
func openError(dir string, err error) error {
	switch {
	case isMissing(err):
		return missingStore(dir)
	case errors.Is(err, shale.ErrLocked):
		return &sentence{fmt.Sprintf("%s has %s open for writing; try again when it ends", owner(err), output.Quote(dir)), err}
	}
	for at := dir; ; at = filepath.Dir(at) {
		info, statErr := os.Stat(at)
		switch {
		case statErr == nil && !info.IsDir() && at == dir:
			return &sentence{output.Quote(dir) + " is a file, not a store", err}
		case statErr == nil && !info.IsDir():
			return &sentence{fmt.Sprintf("%s is a file, so that no folder %s can be in it", output.Quote(at), output.Quote(dir)), err}
		case statErr == nil || at == filepath.Dir(at):
			return err
		}
	}
}

var ownerPattern = regexp.MustCompile(`owned by (process \d+)`)

// owner returns the program that has a store, of which err says that it is in use.
func owner(err error) string {
	if said := new(sentence); errors.As(err, &said) {
		err = said.err
	}
	if m := ownerPattern.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return "another process"
}

// plainly returns err with a sentence in the place of what the store says of a full
// disk.
func plainly(err error) error {
	if said := new(sentence); err == nil || errors.As(err, &said) || !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return &sentence{"the disk is full; free space and run this again", err}
}

// Complain reports err, after what was printed before it. That nobody reads
// our output any more, as after head has seen enough, is no error of a command
// that prints what it can print again.
func (s *Session) Complain(err error) Status {
	_ = s.Out.Flush() // if it fails, there is nobody to tell
	if errors.Is(err, syscall.EPIPE) {
		if s.Mode == oneShot {
			return Found
		}
		if s.unread {
			return Failed
		}
		s.unread = true
		err = errors.New("the reader of the output has closed it; the remaining commands are not run")
	}
	fmt.Fprintf(s.Notes, "shale: %s\n", s.damage.message(err))
	return Failed
}

// message tells what is at fault, and what to do where that is not plain.
func message(err error) string {
	switch {
	case isDamage(err):
		return plain(err) + damageAdvice
	case errors.Is(err, shale.ErrFormatTooNew):
		return plain(err) + "\nA newer shale wrote this store: use that one. Nothing was changed."
	}
	return plain(err)
}

const damageAdvice = "\nThe store is damaged. Keep a copy of its folder before trying anything else; `shale check` lists all damage."

// plain is the text of an error without advice.
func plain(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "shale: "), ": shale: ", ": ")
}

func isDamage(err error) bool {
	var damage *shale.CorruptionError
	return errors.As(err, &damage)
}

// isMissing reports whether there is no store. A damaged store, of which a file
// is missing, is one.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) && !isDamage(err) }

// damageNotes reports each damage once, and what to do about it once.
// The store reports damage that a read meets as an event, and returns it to the
// command that reads, which is the one to tell.
type damageNotes struct {
	mu      sync.Mutex
	running bool            // a command is
	met     []error         // by reads of it
	told    map[string]bool // damage, and a full disk
	advised bool
}

func (d *damageNotes) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = true
}

// end returns what the command has met and nobody has told, but for its error err.
func (d *damageNotes) end(err error) (untold []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := troubleOf(err)
	for _, met := range d.met {
		if trouble := troubleOf(met); trouble != own && d.first(trouble) {
			untold = append(untold, met)
		}
	}
	d.running, d.met = false, nil
	return untold
}

// keep keeps the error of a read for the end of the command, if one runs.
func (d *damageNotes) keep(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running {
		d.met = append(d.met, err)
	}
	return d.running
}

// isNew reports whether err was not told before, and takes it for told.
func (d *damageNotes) isNew(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first(troubleOf(err))
}

// first is isNew for what troubleOf returns. Requires: mu is held.
func (d *damageNotes) first(trouble string) bool {
	if trouble == "" || d.told[trouble] {
		return trouble == ""
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[trouble] = true
	return true
}

// message is the function message, with advice once.
func (d *damageNotes) message(err error) string {
	d.isNew(err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isDamage(err) || !d.advised {
		d.advised = d.advised || isDamage(err)
		return message(err)
	}
	return plain(err)
}

// troubleOf returns what is the same in all errors that one damage, or a full disk,
// leads to; empty: nothing is.
func troubleOf(err error) string {
	var damage *shale.CorruptionError
	switch {
	case errors.As(err, &damage):
		return damage.Error()
	case errors.Is(err, syscall.ENOSPC):
		return syscall.ENOSPC.Error()
	}
	return ""
}

// noteDamage reports damage that reads of a command met which it went on behind.
func (s *Session) noteDamage(err error) {
	for _, untold := range s.damage.end(err) {
		s.note("shale: %s", s.damage.message(untold))
	}
}

// onEvent reports what goes wrong in the background, which no command returns.
func (s *Session) onEvent(e shale.Event) {
	switch {
	case e.Err == nil, e.Kind == shale.EventCorruption && s.damage.keep(e.Err), !s.damage.isNew(e.Err):
	case errors.Is(e.Err, syscall.ENOSPC):
		fmt.Fprintln(s.Notes, "shale: in the background: the disk is full")
	default:
		fmt.Fprintf(s.Notes, "shale: in the background: %s: %s\n", e.Kind, s.damage.message(e.Err))
	}
}
