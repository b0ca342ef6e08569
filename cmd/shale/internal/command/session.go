package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
	"github.com/shaledb/shale/internal/signals"
	"github.com/shaledb/shale/vfs"
)

// A mode is how commands reach the program.
type mode int

// The modes differ in three things: where a bare - reads from, how a value is printed (get), and
// when writes are durable. A single command syncs each write, a script now and then.
const (
	oneShot mode = iota
	script
	AtPrompt
	inBatch // the lines of a file that batch runs
)

// A Session runs commands on one store. It opens the store for the first command that needs it.
//
// A session is used by one goroutine at a time. Events of the store come from others, and only
// touch Notes and damage, which have locks of their own.
type Session struct {
	Ctx context.Context // is done when the program must end; nil: never
	output.Printer
	flags *flags // of a single command, which may have more of them; nil in tests
	// Constant once the options are known, but for what a command changes: the mode of the printer.
	Dir      string
	fs       vfs.FS // of the store
	readOnly bool
	newStore bool          // make a store even in a folder with other files
	layout   shale.Options // what filters and which compression tables get that are written
	Mode     mode
	in       io.Reader // the input that a bare - stands for; nil: none
	toScreen bool      // the output is a terminal
	Notes    *LockedWriter
	table    *table

	beforeKeys func() bool // opens the store to complete a key; nil: keys are completed only if it is open

	unread bool // the reader of Out has closed it, and that was reported

	DB       *shale.DB    // nil: not open
	writable bool         // DB is open for writing
	aside    *shale.DB    // open read-only, while a command of a prompt writes; nil: none
	tx       *transaction // nil: none is open

	progress *progress // of the command that is running; nil: it has none
	damage   damageNotes
}

// ErrQuit ends a script or a prompt.
var ErrQuit = errors.New("quit")

// ErrNoDir is the error of commands that need a store where none is named.
var ErrNoDir = errors.New("no store is named: write its folder before the command, or set SHALE_DIR")

// Say prints a line if this is a prompt. Scripts and single commands do not need it.
//
// A person who types a command that prints nothing wants to know that it is done.
func (s *Session) Say(text string, args ...any) {
	if s.Mode == AtPrompt {
		fmt.Fprint(s.Out, s.wrapped(fmt.Sprintf(text+"\n", args...)))
	}
}

// runArgs runs one command that a shell has split into words.
//
// Each argument is one word, whatever spaces it has: the shell has taken the quotes away.
func (s *Session) runArgs(args []string) Status {
	words, err := parseArgs(args)
	if err != nil {
		return s.Complain(err)
	}
	st, err := s.run(words)
	if err != nil && !errors.Is(err, ErrQuit) {
		return s.Complain(s.storeFirst(words, err))
	}
	return st
}

// runScript runs the lines of in, up to the first error.
//
// Lines are read and run one by one. So a program can use shale as a server on a pipe: it writes a
// command, reads the answer, and writes the next. For that reason the output is flushed whenever no
// further line is there.
func (s *Session) runScript(in io.Reader) Status {
	worst := Found
	lines := bufio.NewReader(untilDone(s.Life(), in))
	for n := 1; ; n++ {
		if s.Life().Err() != nil {
			return s.Complain(fmt.Errorf("line %d: %w", n, errInterrupted))
		}
		if lines.Buffered() == 0 {
			// A program that sends commands one by one waits for each answer.
			if err := s.Out.Flush(); err != nil {
				return s.Complain(err)
			}
		}
		line, readErr := lines.ReadString('\n')
		switch {
		case errors.Is(readErr, context.Canceled):
			return s.Complain(fmt.Errorf("line %d: %w", n, errInterrupted))
		case readErr != nil && readErr != io.EOF:
			return s.Complain(fmt.Errorf("line %d: %w", n, readErr))
		}
		st, err := s.RunLine(strings.TrimSuffix(line, "\n"))
		switch {
		case errors.Is(err, ErrQuit):
			return worst
		case err != nil:
			return s.Complain(fmt.Errorf("line %d: %w", n, err))
		}
		worst = max(worst, st)
		switch {
		case readErr == nil:
		case n == 1 && line == "" && s.Dir == "": // nothing at all was asked for
			return s.Complain(ErrNoDir)
		default:
			return worst
		}
	}
}

// RunLine runs the command of one line, if there is one.
func (s *Session) RunLine(line string) (Status, error) {
	words, err := ParseLine(line)
	if err != nil || len(words) == 0 {
		return Found, err
	}
	return s.run(words)
}

// run runs a command. A signal can end it.
//
// The context of the command ends at Ctrl-C, that of the session at SIGTERM. A prompt survives the
// first.
func (s *Session) run(words []Word) (Status, error) {
	c, list, err := s.prepare(words)
	if err != nil {
		return Failed, err
	}
	ctx, stop := signals.Until(s.Life(), 0, commandSignals...)
	defer stop()
	st, err := s.do(ctx, c, list)
	return st, errors.Join(err, s.release())
}

// Life returns a context that is done when the program must end.
func (s *Session) Life() context.Context {
	if s.Ctx == nil {
		return context.Background()
	}
	return s.Ctx
}

// prepare finds the command that words name, parses its options, and opens the store for it. It
// returns the command and the words that are not options.
//
// A command with the field late opens the store itself, when it has checked its input. So a file
// that is missing does not make a store.
func (s *Session) prepare(words []Word) (*Command, []Word, error) {
	c, list, err := s.find(words)
	switch {
	case err != nil:
	case c.helpOnly:
		c.run = func(context.Context, *Session, []Word) (Status, error) { return Found, s.explainCommand(c) }
	case !c.late:
		err = s.OpenFor(c.Title, c.access)
	}
	return c, list, err
}

// find is prepare without the store.
func (s *Session) find(words []Word) (*Command, []Word, error) {
	c, rest := s.commandOf(words)
	if c == nil {
		return nil, nil, s.unknownCommand(words[0])
	}
	if s.Mode == oneShot && s.flags != nil {
		s.flags.after(c)
		defer s.useFlags()
	}
	list, err := c.parse(rest)
	if err == nil && !c.helpOnly {
		err = s.allowed(c)
	}
	return c, list, err
}

// storeFirst adds to an error of a single command how to name the store, if none is named, and one of
// the words is a folder that has one.
func (s *Session) storeFirst(words []Word, err error) error {
	if s.Dir != "" || !errors.Is(err, ErrNoDir) && !errors.Is(err, errUsage) {
		return err
	}
	for _, w := range words[1:] {
		if _, statErr := os.Stat(filepath.Join(w.Text, base.CurrentName)); statErr == nil {
			return fmt.Errorf("%w; %s is a store: write shale %s %s", err, output.Quote(w.Text), output.Quote(w.Text), words[0].Text)
		}
	}
	return err
}

// do runs c with the settings of its options.
//
// Damage that the command has met and survived is reported after it, and once.
func (s *Session) do(ctx context.Context, c *Command, words []Word) (Status, error) {
	defer s.setFor(c)()
	defer s.startProgress(c.Title)()
	s.Stopped = ctx.Err
	s.damage.begin()
	st, err := c.run(ctx, s, words)
	s.noteDamage(err)
	if errors.Is(err, context.Canceled) {
		return st, fmt.Errorf("%s: %w", c.Title, errInterrupted)
	}
	return st, plainly(err)
}

// openLate opens the store for a command with the field late.
func (s *Session) openLate(c *Command) error { return s.OpenFor(c.Title, c.access) }

// OpenFor opens the store as the named command needs it, unless it is open already.
//
// A store that is open read-only is opened again for a command that writes. Until that has succeeded, the
// first handle stays: a read-only handle holds no lock. At a prompt it stays even longer (release).
func (s *Session) OpenFor(name string, need Access) error {
	write := need == writes || need == creates
	switch {
	case need == needsNothing:
		return nil
	// The option is a promise to the user, also for commands that would do no harm.
	case write && s.readOnly:
		return fmt.Errorf("%s writes, and --readonly was given", name)
	case write && s.tx != nil && !s.tx.writable:
		return fmt.Errorf("%s writes, and the transaction only reads; commit or discard it first", name)
	case s.DB != nil && (s.writable || !write):
		return s.follow()
	}
	before := s.DB // open read-only, which takes no lock, so it stays in use if Open fails
	s.DB = nil
	err := s.openStore(write, need == creates)
	if name == "checkpoint" && errors.Is(err, shale.ErrLocked) {
		err = &sentence{fmt.Sprintf("%s has %s open for writing, and it alone can make a checkpoint now (DB.Checkpoint); "+
			"export, and import into another store, copy it nevertheless", owner(err), output.Quote(s.Dir)), err}
	}
	switch {
	case err != nil:
		s.DB = before
	case s.Mode == AtPrompt:
		s.aside = before
	case before != nil:
		return before.Close()
	}
	return err
}

// release closes the store after a command of a prompt that has written, so that a prompt that waits for a
// line keeps nobody from writing. A transaction keeps the store until it ends.
//
// The handle for reading was there all the time, so what it has counted goes on, and Tab knows the new keys.
func (s *Session) release() error {
	if s.Mode != AtPrompt || s.DB == nil || !s.writable || s.tx != nil {
		return nil
	}
	err := s.DB.Close()
	s.DB, s.aside, s.writable = s.aside, nil, false
	if s.DB == nil { // the command has made the store
		return errors.Join(err, s.openStore(false, false))
	}
	return errors.Join(err, s.follow())
}

// openStore opens the store of the session. It must exist, unless create is set.
func (s *Session) openStore(writable, create bool) error {
	if s.Dir == "" {
		return ErrNoDir
	}
	// A script of a million puts would take hours with a sync for each. Its writes are durable
	// after a tenth of a second, and the close at its end syncs the rest.
	durability := shale.SyncEach
	if s.Mode == script {
		durability = shale.SyncPeriodic
	}
	o := s.layout
	o.FS, o.ReadOnly, o.Exist, o.Durability, o.OnEvent = s.fs, !writable, shale.MustExist, durability, s.onEvent
	open := shale.Open
	if create {
		open = s.openOrMake
	}
	db, err := open(s.Dir, &o)
	if err != nil {
		return openError(s.Dir, err)
	}
	s.DB, s.writable = db, writable
	return nil
}

// openOrMake opens a store. If there is none, it makes one, but only in a folder that is empty or
// missing. So a mistyped name does not put the files of a store among other files.
//
// The check and the making are two steps. A file that another program puts there in between stays,
// next to those of the store.
func (s *Session) openOrMake(dir string, o *shale.Options) (*shale.DB, error) {
	o.Exist = shale.MustExist
	db, err := shale.Open(dir, o)
	if err == nil || !isMissing(err) {
		return db, err
	}
	if err := checkParent(dir); err != nil {
		return nil, err
	}
	if !s.newStore {
		if err := checkNew(dir); err != nil {
			return nil, err
		}
	}
	o.Exist = shale.MayExist
	if db, err = shale.Open(dir, o); err == nil {
		s.note("made a new store in %s", output.Quote(dir)) // the name may have been mistyped
	}
	return db, err
}

// checkParent returns an error if the folder in which a new store would be is missing. Then the name is
// more likely wrong than meant.
func checkParent(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
		return nil // if there is another error, Open returns it
	}
	cure := "make it, or correct the name of the store"
	if strings.HasPrefix(dir, "~") {
		cure = "a shell takes ~ for the home folder only outside of quotes"
	}
	return &sentence{text: fmt.Sprintf("there is no folder %s; %s", output.Quote(parent), cure)}
}

// checkNew returns an error if dir has files that are not those of a store.
//
// lost+found is in the root of each ext4 file system, which may be a volume for the store alone.
func checkNew(dir string) error {
	if err := outfile.Folder(dir); err != nil {
		return fmt.Errorf("%w, or give --new", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // if there is an error, Open returns it
	}
	for _, e := range entries {
		if _, _, ok := base.ParseFileName(e.Name()); !ok && e.Name() != "lost+found" {
			return &sentence{text: fmt.Sprintf("there is no store in %s, but other files, such as %s; shale --new -C %s makes a store there nevertheless",
				output.Quote(dir), output.Quote(e.Name()), output.Quote(dir))}
		}
	}
	return nil
}

// Close closes the store, if it is open. It discards a transaction that is open, and says so (leave).
//
// For a store that was open for writing, it syncs what a script has not synced yet.
func (s *Session) Close() error {
	left := s.leave()
	if s.DB == nil {
		return left
	}
	err := errors.Join(left, s.DB.Close())
	if s.aside != nil {
		err = errors.Join(err, s.aside.Close())
	}
	s.DB, s.aside = nil, nil
	return err
}

// follow makes a store that is open read-only show what another program has written. If the
// folder has another store now, follow opens that one. If it can't be read, follow says so, and
// the command sees what was there before.
//
// It runs before each command that reads. So a prompt next to a program that writes shows what is
// there now, and not what was there when it was opened. A transaction shows one moment.
func (s *Session) follow() error {
	if s.DB == nil || s.writable || s.tx != nil {
		return nil
	}
	_, err := s.DB.Advance(s.Life())
	switch {
	case errors.Is(err, shale.ErrReplaced):
		before := s.DB
		if err := s.openStore(false, false); err != nil {
			s.DB = before
			return err
		}
		return before.Close()
	case err != nil && s.Life().Err() == nil:
		s.Say("(what was written since could not be read: %s)", plain(err))
	}
	return nil
}

// PromptText returns the text in front of a line at a prompt.
func (s *Session) PromptText() string {
	switch {
	case s.tx != nil && s.tx.writable:
		return "shale (transaction)> "
	case s.tx != nil:
		return "shale (read-only transaction)> "
	case s.readOnly:
		return "shale (read-only)> "
	}
	return "shale> "
}
