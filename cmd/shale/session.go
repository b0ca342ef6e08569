package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
)

// A mode is how commands reach the program.
type mode int

const (
	oneShot mode = iota
	script
	prompt
)

// A session runs commands against one store, which it opens when the first
// command needs it.
type session struct {
	ctx context.Context // ends when the program shall end; nil: never
	printer
	dir      string
	readOnly bool
	newStore bool // also where other files are
	mode     mode
	in       io.Reader // what a bare - stands for; nil: nothing
	notes    *lockedWriter
	timer    bool    // tell how long commands took
	explain  bool    // tell how each get went
	more     []group // commands beside those of this package

	sources int // files that run each other

	unread     bool         // nobody reads out any more, and that was told
	syncOutput func() error // makes what out has written durable, if it is a file

	db       *shale.DB // nil: not open
	writable bool      // db is

	damage damageNotes
}

// errQuit ends a script or a prompt.
var errQuit = errors.New("quit")

var errNoDir = errors.New("no store is named: write shale -C DIR, or set SHALE_DIR")

// A lockedWriter may be written to by several goroutines: background work of
// the store reports to the same place as commands.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// say prints what is of interest at a prompt only.
func (s *session) say(text string, args ...any) {
	if s.mode == prompt {
		fmt.Fprintf(s.out, text+"\n", args...)
	}
}

// runArgs runs one command that a shell has split into words.
func (s *session) runArgs(args []string) status {
	words := make([]word, len(args))
	line := ""
	var wrong error
	for i, arg := range args {
		w, err := parseArg(arg)
		shown := quote(arg)
		if strings.HasPrefix(arg, "--") && !strings.Contains(arg, " ") || isHex(arg) || strings.HasPrefix(arg, "@") || err != nil {
			shown = seen(arg)
		}
		w.from = len(line)
		line += shown
		w.to = len(line)
		line += " "
		if words[i] = w; err != nil && wrong == nil {
			wrong = &mistake{from: w.from, to: w.to, err: err}
		}
	}
	line = strings.TrimSuffix(line, " ")
	if wrong != nil {
		return s.complainOf(line, wrong)
	}
	st, err := s.run(words)
	if err != nil && !errors.Is(err, errQuit) {
		return s.complainOf(line+" ", err)
	}
	return st
}

// runScript runs the lines of in, up to the first error.
func (s *session) runScript(in io.Reader) status {
	worst := found
	lines := bufio.NewReader(untilDone(s.life(), in))
	for n := 1; ; n++ {
		if s.life().Err() != nil {
			return s.complain(fmt.Errorf("line %d: interrupted", n))
		}
		if lines.Buffered() == 0 {
			// Whoever sends commands one by one waits for the answer.
			if err := s.out.Flush(); err != nil {
				return s.complain(err)
			}
		}
		line, readErr := lines.ReadString('\n')
		switch {
		case errors.Is(readErr, context.Canceled):
			return s.complain(fmt.Errorf("line %d: interrupted", n))
		case readErr != nil && readErr != io.EOF:
			return s.complain(fmt.Errorf("line %d: %w", n, readErr))
		}
		st, err := s.runLine(strings.TrimSuffix(line, "\n"))
		switch {
		case errors.Is(err, errQuit):
			return worst
		case err != nil:
			return s.complain(fmt.Errorf("line %d: %w", n, err))
		}
		worst = max(worst, st)
		if readErr == io.EOF {
			return worst
		}
	}
}

// runLine runs the command of one line, if there is one.
func (s *session) runLine(line string) (status, error) {
	words, err := parseLine(line)
	if err != nil || len(words) == 0 {
		return found, err
	}
	return s.run(words)
}

// run runs a command, until it ends or a signal ends it.
func (s *session) run(words []word) (status, error) {
	c, a, err := s.prepare(words)
	if err != nil {
		return failed, err
	}
	ctx, stop := untilSignal(s.life(), commandSignals)
	defer stop()
	return s.do(ctx, c, a)
}

// life returns the context that ends when the program shall end.
func (s *session) life() context.Context {
	if s.ctx == nil {
		return context.Background()
	}
	return s.ctx
}

// runIn runs a command as a part of another one, which has ctx.
func (s *session) runIn(ctx context.Context, words []word) (status, error) {
	c, a, err := s.prepare(words)
	if err != nil {
		return failed, err
	}
	return s.do(ctx, c, a)
}

// prepare finds the command that words mean, and opens the store for it.
func (s *session) prepare(words []word) (*command, arguments, error) {
	c, rest := s.commandOf(words)
	if c == nil {
		return nil, arguments{}, &mistake{from: words[0].from, to: words[0].to, err: errors.New(s.unknownCommand(words[0]))}
	}
	a, err := c.bind(rest)
	switch {
	case err == nil && !c.late:
		err = s.open(c)
	case err == nil:
	case len(rest) == 0:
		end := words[len(words)-1].to + 1
		err = &mistake{from: end, to: end, err: err}
	case s.goesOn(c, rest[0]) != "":
		err = &mistake{from: rest[0].from, to: rest[0].to, err: fmt.Errorf("%w%s", err, s.goesOn(c, rest[0]))}
	}
	return c, a, err
}

// do runs c, with the settings that its options ask for.
func (s *session) do(ctx context.Context, c *command, a arguments) (status, error) {
	restore, err := s.setFor(a)
	if err != nil {
		return failed, err
	}
	defer restore()
	timed := s.timer && !c.nested // .timer on is not timed
	begin := time.Now()
	if !c.nested {
		s.damage.begin()
	}
	st, err := c.run(ctx, s, a)
	if !c.nested {
		s.noteDamage(err)
	}
	if timed && s.timer && err == nil {
		s.note("time: %s", took(time.Since(begin)))
	}
	if m := new(mistake); !c.nested && errors.As(err, &m) {
		err = errors.New(err.Error()) // in a line of a file: its columns are not those of this line
	}
	switch {
	case errors.Is(err, context.Canceled):
		err = fmt.Errorf("%s: interrupted", c.name)
	case err != nil:
		err = s.blame(c, a, plainly(err))
	}
	return st, err
}

// openLate opens the store for a command that has its input now.
func (s *session) openLate(name string) error { return s.open(s.lookup(name)) }

// open makes sure that the store is open as c needs it.
func (s *session) open(c *command) error {
	writes := c.access == writes || c.access == creates
	switch {
	case c.access == needsNothing:
		return nil
	case writes && s.readOnly:
		return fmt.Errorf("%s writes, and -readonly was given", c.name)
	case s.db != nil && (s.writable || !writes):
		return nil
	}
	before := s.db // open for reading, which takes no lock: it stays if the new way fails
	s.db = nil
	var err error
	if s.mode == prompt && !s.readOnly {
		err = s.openForPrompt(c.access)
	} else {
		err = s.openStore(writes, c.access == creates)
	}
	if c.name == "checkpoint" && errors.Is(err, shale.ErrLocked) {
		err = &sentence{fmt.Sprintf("%s has %s open for writing, and it alone can make a checkpoint now (DB.Checkpoint); "+
			"export, and import into another store, copy it all the same", owner(err), quote(s.dir)), err}
	}
	if err == nil && before != nil {
		return before.Close()
	}
	if err != nil {
		s.db = before
	}
	return err
}

// openForPrompt opens for writing if it can. A command that only reads takes
// read-only for an answer.
func (s *session) openForPrompt(need access) error {
	err := s.openStore(true, need == creates)
	if need != reads || isMissing(err) || err == nil {
		return err
	}
	writeErr := err
	if err := s.openStore(false, false); err != nil {
		return err
	}
	why, _, _ := strings.Cut(plain(writeErr), "; try again")
	s.say("(read-only, as of now: %s)", why)
	return nil
}

func (s *session) openStore(writable, create bool) error {
	if s.dir == "" {
		return errNoDir
	}
	durability := shale.SyncEach
	if s.mode == script {
		durability = shale.SyncPeriodic
	}
	o := &shale.Options{ReadOnly: !writable, MustExist: true, Durability: durability, OnEvent: s.onEvent}
	open := shale.Open
	if create {
		open = s.openOrMake
	}
	db, err := open(s.dir, o)
	if err != nil {
		return openError(s.dir, err)
	}
	s.db, s.writable = db, writable
	return nil
}

// openOrMake opens a store, and makes it if it is not there and its folder is empty or
// missing: a slip in its name must not strew files among others.
func (s *session) openOrMake(dir string, o *shale.Options) (*shale.DB, error) {
	o.MustExist = true
	db, err := shale.Open(dir, o)
	if err == nil || !isMissing(err) {
		return db, err
	}
	if !s.newStore {
		if err := checkNew(dir); err != nil {
			return nil, err
		}
	}
	o.MustExist = false
	return shale.Open(dir, o)
}

// checkNew returns an error if there is anything in dir that no store has made.
func checkNew(dir string) error {
	if err := outfile.Folder(dir); err != nil {
		return fmt.Errorf("%w, or give -new", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // to open it gives the error, if it is there
	}
	for _, e := range entries {
		if _, _, ok := base.ParseFileName(e.Name()); !ok && e.Name() != "lost+found" {
			return &sentence{text: fmt.Sprintf("there is no store in %s, but other files, such as %s; shale -new -C %s makes a store there all the same",
				quote(dir), quote(e.Name()), quote(dir))}
		}
	}
	return nil
}

// close closes the store, if it is open.
func (s *session) close() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

// refresh opens a store that is open read-only anew, so that it shows what
// another program has written.
func (s *session) refresh() error {
	if s.db == nil || s.writable {
		return nil
	}
	before := s.db
	if err := s.openStore(false, false); err != nil {
		s.db = before
		return err
	}
	return before.Close()
}
