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

func batchCommand() *Command {
	c := newCommand("batch FILE", creates, "apply a file of put and del lines, atomically", `
Each line is "put KEY VALUE" or "del KEY...". Empty lines and lines that begin with # are skipped. If a line
has an error, nothing is applied. A bare - stands for standard input. A batch of many lines is much faster
than a put for each line. Creates the store as put does.`)
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
		if err := s.DB.Write(ctx, &b); err != nil {
			return Failed, err
		}
		s.Say("%s in %v", output.Plural(b.Len(), "change"), output.Since(begin))
		return Found, nil
	})
}

// readBatch adds the lines of in to b. Its errors name the line.
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
	default:
		return fmt.Errorf("%s is neither put nor del", output.Quote(verb))
	}
}
