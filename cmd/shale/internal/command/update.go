package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// updateCommand runs a script in one transaction, by DB.Update. All lines are read and looked at before
// the store is opened, so that a mistake makes no store.
//
// DB.Update runs the script again when another writer has changed what it has read. So what it prints is
// kept until the commit, and standard input can't be read by it. Notes go to standard error at once.
func updateCommand() *Command {
	c := newCommand("update SCRIPT", creates, "run a file of commands in one transaction: all of it, or nothing", `
Each line of the file is a command, as at the prompt; a bare - stands for standard input. Commands see the
changes of the lines before them. If a line fails, nothing is written, and the error names the line. What the
script prints is printed at its end. The status is the highest of its commands, as for other scripts: 1, with
all written, if a get finds nothing. It may have the commands that can run in a transaction (help begin),
without begin, commit, discard and quit. Its changes may have 512 MiB; import, outside of a transaction, writes
files of any size. Creates the store as put does.`)
	c.late, c.txn = true, neverIn
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		in, size, err := s.openInput(ctx, words[0])
		if err != nil {
			return Failed, err
		}
		defer in.Close() // only read
		begin, u := time.Now(), &update{s: s, name: inputName(words[0])}
		u.script.Grow(int(size) + bytes.MinRead)
		if _, err := u.script.ReadFrom(in); err != nil {
			return Failed, fmt.Errorf("%s: %w", u.name, err)
		}
		if err := u.check(ctx); err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		err = s.DB.Update(ctx, func(tx *shale.Txn) error { return u.run(ctx, tx) })
		if _, outErr := u.out.WriteTo(s.Out); err == nil {
			err = outErr
		}
		switch {
		case errors.Is(err, context.Canceled):
			return Failed, fmt.Errorf("update: %w; nothing is written", errInterrupted)
		case err != nil:
			return Failed, err
		}
		s.Say("%s in %v", output.Plural(u.changes, "change"), output.Since(begin))
		return u.status, nil
	})
}

// An update is a script, and what has come of the last run of it.
type update struct {
	s      *Session
	name   string       // of the script, for messages
	script bytes.Buffer // constant after it was read

	out     bytes.Buffer
	status  Status
	changes int
}

// check looks at the lines without running them.
func (u *update) check(ctx context.Context) error {
	mode := u.s.Mode
	u.s.Mode = updating
	defer func() { u.s.Mode = mode }()
	return u.each(ctx, func(words []Word) error {
		_, _, err := u.s.find(words)
		return err
	})
}

// run runs the lines in tx. The session is then as it was, whatever the script has set.
func (u *update) run(ctx context.Context, tx *shale.Txn) error {
	s := u.s
	mode, in, printer := s.Mode, s.in, s.Printer
	defer func() { s.Mode, s.in, s.Printer, s.tx = mode, in, printer, nil }()
	u.out.Reset()
	u.status = Found
	s.Mode, s.in, s.Out, s.tx = updating, nil, bufio.NewWriter(&u.out), &transaction{Txn: tx, writable: true}
	err := u.each(ctx, func(words []Word) error {
		c, list, err := s.prepare(words)
		if err != nil {
			return err
		}
		st, err := s.do(ctx, c, list)
		u.status = max(u.status, st)
		return err
	})
	_ = s.Out.Flush() // into memory
	u.changes = s.tx.changes
	return err
}

// each calls do with the words of each line that has some. Its errors name the line.
func (u *update) each(ctx context.Context, do func(words []Word) error) error {
	n := 0
	for line := range bytes.Lines(u.script.Bytes()) {
		n++
		words, err := ParseLine(strings.TrimSuffix(string(line), "\n"))
		switch {
		case ctx.Err() != nil:
			err = errInterrupted
		case err == nil && len(words) > 0:
			err = do(words)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %w; nothing is written", u.name, n, err)
		}
	}
	return nil
}
