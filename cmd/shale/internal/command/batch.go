package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// batchCommand runs a file of commands as one change: after a crash all of it is there or nothing. All
// lines are read and looked at before the store is opened, so that a mistake makes no store.
//
// A file that only puts and deletes becomes a batch of the store, which is several times as fast as the
// transaction (update.go) that other files need.
func batchCommand() *Command {
	c := newCommand("batch FILE", creates, "run a file of commands as one change: all of it, or nothing", `
Each line of the file is a command, as at the prompt; a bare - stands for standard input. Commands see the changes of the
lines before them. If a line fails, nothing is written, and the error names the line. What the commands print is
printed at the end. The status is the highest of them, as for other scripts: 1, with all written, if a get finds
nothing. A batch of many lines is much faster than a put for each line, and faster still if it has only put and
del. Other lines may be those that can run in a transaction (help begin), without begin, commit, discard and quit; in an
open transaction there can be none. The changes may have 512 MiB; import writes files of any size. Creates the store
as put does.`)
	c.late, c.txn = true, notBatch
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
		b, err := u.read(ctx)
		if err != nil {
			return Failed, err
		}
		if b == nil && s.tx != nil {
			return Failed, fmt.Errorf("%s has more than put and del, which a transaction can't take back; commit or discard it first", u.name)
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		if b != nil {
			u.changes, err = b.Len(), s.write(ctx, b)
		} else {
			err = s.DB.Update(ctx, func(tx *shale.Txn) error { return u.run(ctx, tx) })
			if _, outErr := u.out.WriteTo(s.Out); err == nil {
				err = outErr
			}
		}
		switch {
		case errors.Is(err, context.Canceled):
			return Failed, fmt.Errorf("batch: %w; nothing is written", errInterrupted)
		case err != nil:
			return Failed, err
		}
		s.Say("%s in %v", output.Plural(u.changes, "change"), output.Since(begin))
		return u.status, nil
	})
}

// read looks at the lines without running them. If they only put and delete, it returns a batch of them.
func (u *update) read(ctx context.Context) (*shale.Batch, error) {
	mode := u.s.Mode
	u.s.Mode = inBatch
	defer func() { u.s.Mode = mode }()
	b := new(shale.Batch)
	err := u.each(ctx, func(words []Word) error {
		// Most lines are of this form, and a command with its options takes longer to make.
		if b != nil && len(words) == 3 && words[0].Text == "put" && words[1].plain() && words[2].plain() {
			return b.Put(words[1].bytes(), words[2].bytes())
		}
		c, list, err := u.s.find(words)
		switch {
		case err != nil:
			return err
		case c.change == nil || c.helpOnly || c.has("if-absent"):
			b = nil
		case b != nil:
			return c.change(u.s, b, list)
		}
		return nil
	})
	return b, err
}

// plain reports whether w can be nothing else than a key or a value.
func (w Word) plain() bool { return w.Literal || !strings.HasPrefix(w.Text, "-") }
