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
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/crypt"
)

// A sentence is an error of the store in plain words.
//
// errors.Is and errors.As still find what the store has returned.
type sentence struct {
	text string
	err  error // the error of the store
}

// Error returns the sentence, and Unwrap what the store has said.
func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.err }

// openError returns in plain words why the store in dir can't be opened.
//
// The errors of package shale are for programmers. These are the cases that somebody at a shell
// meets most often, each with what to do next.
func openError(dir string, err error) error {
	switch said := plainly(err); {
	case said != err:
		return said
	case isMissing(err):
		return &sentence{fmt.Sprintf("there is no store in %s; put, batch and import make one", output.Quote(dir)), err}
	case errors.Is(err, vfs.ErrEncrypted) && !errors.Is(err, crypt.ErrNoKey) && !errors.Is(err, crypt.ErrWrongKey):
		return &sentence{output.Quote(dir) + " is encrypted; --key-file names the file with its keys", err}
	case errors.Is(err, shale.ErrLocked):
		return &sentence{fmt.Sprintf("%s has %s open for writing; try again when it ends", owner(err), output.Quote(dir)), err}
	}
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return &sentence{output.Quote(dir) + " is a file, not a store", err}
	}
	return err
}

// ownerPattern finds the process in an error of package vfs, which has it from the lock file.
var ownerPattern = regexp.MustCompile(`owned by (process \d+)`)

// owner returns the program that has the store open. err is the ErrLocked that names it.
//
// The number of the process is what somebody needs to end it or to wait for it.
func owner(err error) string {
	if said := new(sentence); errors.As(err, &said) {
		err = said.err
	}
	if m := ownerPattern.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return "another process"
}

// plainly returns err. If the reason is a full disk, or that the process has too many files open,
// it returns one sentence with the cure, however many files could not be opened.
//
// One cause can make hundreds of files fail at once, and the error of the store then has a line for
// each of them.
func plainly(err error) error {
	said := new(sentence)
	switch {
	case err == nil || errors.As(err, &said):
		return err
	case base.IsNoSpace(err):
		return &sentence{"the disk" + placeOf(err) + " is full; remove other files from it or enlarge it, and run this again", err}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &sentence{"too many open files; raise the limit with ulimit -n, and run this again", err}
	}
	return err
}

// placeOf says in which folder the file is that err is about, if it names one.
//
// With several disks, the name of the folder says which of them is full.
func placeOf(err error) string {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return " with " + output.Quote(filepath.Dir(path.Path))
	case errors.As(err, &link):
		return " with " + output.Quote(filepath.Dir(link.New))
	}
	return ""
}

// Complain prints err after the output that came before it. If the reader of the output has
// closed it, as head does, that is no error, unless the command printed something that it
// can't print again.
//
// The output is flushed first, so that on a terminal the message stands below what it is about.
func (s *Session) Complain(err error) Status {
	_ = s.Out.Flush() // if it fails, nobody reads the output
	if errors.Is(err, syscall.EPIPE) {
		if s.Mode == oneShot {
			return Found
		}
		if s.unread {
			return Failed
		}
		// The next commands of a script could change the store although nobody sees what they say.
		s.unread = true
		err = errors.New("the reader of the output has closed it; the remaining commands are not run")
	}
	fmt.Fprintf(s.Notes, "shale: %s\n", s.damage.message(err))
	if errors.Is(err, errInterrupted) {
		return Interrupted
	}
	return Failed
}

// message returns the text of an error, with advice where it is not obvious what to do.
func message(err error) string {
	switch {
	case isDamage(err):
		return plain(err) + damageAdvice
	case errors.Is(err, shale.ErrFormatTooNew):
		return plain(err) + "\nA newer shale wrote this store: use that one. Nothing was changed."
	}
	return plain(err)
}

// damageAdvice follows the first message about damage. The copy comes first: a disk that has begun
// to lose bytes may lose more while somebody tries things.
const damageAdvice = "\nThe store is damaged. Keep a copy of its folder before trying anything else; `shale DIR check` lists all damage."

// plain returns the text of an error without advice.
func plain(err error) string {
	return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "shale: "), ": shale: ", ": ")
}

// isDamage reports whether an error says that bytes of the store are wrong or missing.
func isDamage(err error) bool {
	var damage *shale.CorruptionError
	return errors.As(err, &damage)
}

// isMissing reports whether there is no store. A store that lacks a file is damaged, but not
// missing.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) && !isDamage(err) }

// damageNotes makes sure that each damage is reported once, and so is the advice about it.
// When a read finds damage, the store reports an event and also returns an error to the
// command that reads. The command is the one to report it.
//
// met is emptied by end; told stays for the life of the session, so that a script with a thousand
// gets of a damaged block has one message.
type damageNotes struct {
	mu      sync.Mutex
	running bool            // a command is running
	met     []error         // what its reads found
	told    map[string]bool // what was reported: results of troubleOf, and the advice
}

// begin says that a command is running, which will report what its own reads find.
func (d *damageNotes) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = true
}

// end returns the damage that the command found and that was not reported, without its error err.
//
// The damage that err itself is about is left out, since the caller reports err.
func (d *damageNotes) end(err error) (untold []error) {
	d.mu.Lock()
	found := d.met
	d.running, d.met = false, nil
	d.mu.Unlock()
	// The command's own error is reported by its caller.
	own := troubleOf(err)
	for _, met := range found {
		if trouble := troubleOf(met); trouble != own && d.isNew(trouble) {
			untold = append(untold, met)
		}
	}
	return untold
}

// keep keeps the error of a read until the end of the command. It returns false if no command
// is running.
//
// Between two commands of a prompt there is nobody to report it but the event itself.
func (d *damageNotes) keep(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running {
		d.met = append(d.met, err)
	}
	return d.running
}

// isNew reports whether text was not reported before, and marks it as reported. No text is always new.
func (d *damageNotes) isNew(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text == "" || d.told[text] {
		return text == ""
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[text] = true
	return true
}

// message is like the function message, but gives the advice about damage only once.
//
// The advice is long, and the same for all damage.
func (d *damageNotes) message(err error) string {
	d.isNew(troubleOf(err))
	if isDamage(err) && !d.isNew(damageAdvice) {
		return plain(err)
	}
	return message(err)
}

// troubleOf returns a text that is the same for all errors with the same cause, which is a
// damage or a full disk. It returns "" for other errors.
func troubleOf(err error) string {
	var damage *shale.CorruptionError
	switch {
	case errors.As(err, &damage):
		return damage.Error()
	case base.IsNoSpace(err):
		return syscall.ENOSPC.Error()
	}
	return ""
}

// noteDamage reports damage that a command found in a read but did not return as an error.
func (s *Session) noteDamage(err error) {
	for _, untold := range s.damage.end(err) {
		s.note("shale: %s", s.damage.message(untold))
	}
}

// onEvent reports errors of background work, which no command returns.
//
// The store calls it on the goroutine that did the work, possibly while a command runs. It prints
// to Notes only.
func (s *Session) onEvent(e shale.Event) {
	switch {
	case e.Err == nil, e.Kind == shale.EventCorruption && s.damage.keep(e.Err), !s.damage.isNew(troubleOf(e.Err)):
	case base.IsNoSpace(e.Err):
		fmt.Fprintln(s.Notes, "shale: in the background: the disk is full")
	default:
		fmt.Fprintf(s.Notes, "shale: in the background: %s: %s\n", e.Kind, s.damage.message(e.Err))
	}
}
