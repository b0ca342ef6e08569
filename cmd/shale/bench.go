package main

import (
	"bufio"
	"context"

	"github.com/shaledb/shale/internal/benchmark"
)

// bench prints the table of package benchmark. The words after -- are options of
// that package.
func bench(ctx context.Context, s *session, a arguments) (status, error) {
	var args []string
	for _, o := range benchOptions {
		if a.has(o.name) {
			args = append(args, "-"+o.name+"="+a.values[o.name])
		}
	}
	for _, w := range a.words {
		args = append(args, w.text)
	}
	if err := benchmark.Run(ctx, "bench --", args, promptly{s.out}); err != nil {
		return failed, err
	}
	return found, nil
}

// promptly flushes what is written at once, as the next lines may take long.
type promptly struct{ w *bufio.Writer }

func (p promptly) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil {
		err = p.w.Flush()
	}
	return n, err
}
