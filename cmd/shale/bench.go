package main

import (
	"bufio"
	"context"
	"strings"

	"github.com/shaledb/shale/internal/benchmark"
)

// bench makes a report in a folder. Words that begin with - are options of
// package benchmark, as ours are.
func bench(ctx context.Context, s *session, a arguments) (status, error) {
	words := a.words
	dir := "shale-report"
	if len(words) > 0 && (words[0].literal || !strings.HasPrefix(words[0].text, "-")) {
		dir, words = words[0].text, words[1:]
	}
	args := []string{"-report=" + dir}
	for _, o := range benchOptions {
		switch {
		case !a.has(o.name):
		case o.arg == "":
			args = append(args, "-"+o.name)
		default:
			args = append(args, "-"+o.name+"="+a.values[o.name])
		}
	}
	for _, w := range words {
		args = append(args, w.text)
	}
	if err := benchmark.Run(ctx, "bench [DIR] --", args, promptly{s.out}); err != nil {
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
