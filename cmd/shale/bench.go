package main

import (
	"bufio"
	"context"
	"strings"

	"github.com/shaledb/shale/internal/benchmark"
)

// bench makes a report in a folder. Words that begin with - are options of
// package benchmark.
func bench(ctx context.Context, s *session, a arguments) (status, error) {
	dir, options := "shale-report", []string(nil)
	for i, w := range a.words {
		if i == 0 && (w.literal || !strings.HasPrefix(w.text, "-")) {
			dir = w.text
			continue
		}
		options = append(options, w.text)
	}
	err := benchmark.Run(ctx, "bench [DIR] --", append([]string{"-report", dir}, options...), promptly{s.out})
	if err != nil {
		return failed, err
	}
	return found, nil
}

// promptly flushes what is written: it tells what takes long.
type promptly struct{ w *bufio.Writer }

func (p promptly) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil {
		err = p.w.Flush()
	}
	return n, err
}
