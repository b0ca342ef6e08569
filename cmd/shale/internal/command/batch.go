package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// batchCommand applies a file as one batch: all of it is there after a crash or nothing. A script
// of the same lines is not atomic, and syncs far more often. All lines are read before the store is
// opened, so that a mistake makes no store.
//
// For example, a file with
//
//	put apple red
//	put "black currant" black
//	# a comment
//	del nothing
//
// is a batch of three changes.
func batchCommand() *Command {
	c := newCommand("batch FILE", creates, "apply a file of changes, atomically", `
Each line is "put KEY VALUE", "del KEY..." or delrange with its words and options. Empty lines and lines that
begin with # are skipped. If a line has an error, nothing is applied. A bare - stands for standard input. A batch
of many lines is much faster than a put for each line. Creates the store as put does.`)
	c.late = true
	return c.does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		in, _, err := s.openInput(ctx, words[0])
		if err != nil {
			return Failed, err
		}
		defer in.Close() // only read
		begin := time.Now()
		var b shale.Batch
		if err := readBatch(ctx, &b, in, inputName(words[0])); err != nil {
			return Failed, err
		}
		if err := s.openLate(c); err != nil {
			return Failed, err
		}
		if err := s.write(ctx, &b); err != nil {
			return Failed, err
		}
		s.Say("%s in %v", output.Plural(b.Len(), "change"), output.Since(begin))
		return Found, nil
	})
}

// readBatch adds the lines of in to b. Its errors name the line.
//
// The batch is in memory as a whole. A file that is larger than that is for import.
func readBatch(ctx context.Context, b *shale.Batch, in io.Reader, name string) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		line, readErr := lines.ReadString('\n')
		if readErr != nil && readErr != io.EOF {
			return fmt.Errorf("%s: %w", name, readErr)
		}
		if err := addLine(b, strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("%s, line %d: %w; nothing is applied", name, n, err)
		}
		if readErr == io.EOF {
			return ctx.Err()
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// addLine adds one line to b.
//
// Words are those of the prompt, in quotes or hexadecimal where needed. So what scan prints can be
// written back with "put " in front of each line.
func addLine(b *shale.Batch, line string) error {
	words, err := ParseLine(line)
	if err != nil || len(words) == 0 {
		return err
	}
	switch verb := words[0].Text; {
	case verb == "put" && len(words) == 3:
		return b.Put([]byte(words[1].Text), []byte(words[2].Text))
	case verb == "put":
		return errors.New("put takes a key and a value")
	case verb == "del" && len(words) > 1:
		for _, w := range words[1:] {
			if err := b.Delete([]byte(w.Text)); err != nil {
				return err
			}
		}
		return nil
	case verb == "del":
		return errors.New("del takes keys")
	case verb == "delrange":
		var d rangeToDelete
		c := d.command()
		rest, err := c.parse(words[1:])
		switch {
		case err != nil:
			return err
		case c.helpOnly:
			return errors.New("--help is for lines of a prompt or a script")
		}
		return d.addTo(b, rest)
	default:
		return fmt.Errorf("%s is not put, del or delrange", output.Quote(verb))
	}
}
