package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/shaledb/shale"
)

func batch(ctx context.Context, s *session, a arguments) (status, error) {
	name := a.words[0].text
	in, err := s.input(ctx, a.words[0])
	if err != nil {
		return failed, err
	}
	if in != nil {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return failed, err
		}
		defer f.Close()
		in = f
	}
	begin := time.Now()
	var b shale.Batch
	if err := readBatch(ctx, &b, in, name); err != nil {
		return failed, err
	}
	if err := s.openLate("batch"); err != nil {
		return failed, err
	}
	if err := s.db.Write(ctx, &b); err != nil {
		return failed, err
	}
	s.say("%s in %v", plural(b.Len(), "change"), since(begin))
	return found, nil
}

// readBatch adds the lines of in to b. An error names the line.
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
	words, err := parseLine(line)
	if err != nil || len(words) == 0 {
		return err
	}
	for i, w := range words[1:] {
		if words[i+1], err = readFile(w); err != nil {
			return err
		}
	}
	switch verb := words[0].text; {
	case verb == "put" && len(words) == 3:
		return b.Put([]byte(words[1].text), []byte(words[2].text))
	case verb == "put":
		return errors.New("put takes a key and a value")
	case verb == "del" && len(words) > 1:
		for _, w := range words[1:] {
			if err := b.Delete([]byte(w.text)); err != nil {
				return err
			}
		}
		return nil
	case verb == "del":
		return errors.New("del takes keys")
	default:
		return fmt.Errorf("%s is neither put nor del", quote(verb))
	}
}
