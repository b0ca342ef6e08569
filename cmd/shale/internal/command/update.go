package command

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/shaledb/shale"
)

// This file has how batch runs commands in one transaction, by DB.Update, which runs them again when another
// writer has changed what they have read. So what they print is kept until the commit, and standard input
// can't be read by them. Notes go to standard error at once.

// An update is a script, and what has come of the last run of it.
type update struct {
	s      *Session
	name   string       // of the script, for messages
	script bytes.Buffer // constant after it was read

	out     bytes.Buffer
	status  Status
	changes int
}

// run runs the lines in tx. The session is then as it was, whatever the script has set.
func (u *update) run(ctx context.Context, tx *shale.Txn) error {
	s := u.s
	mode, in, printer := s.Mode, s.in, s.Printer
	defer func() { s.Mode, s.in, s.Printer, s.tx = mode, in, printer, nil }()
	u.out.Reset()
	u.status = Found
	s.Mode, s.in, s.Out, s.tx = inBatch, nil, bufio.NewWriter(&u.out), &transaction{Txn: tx, writable: true}
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
