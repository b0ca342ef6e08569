package command

import (
	"bufio"
	"context"

	"github.com/shaledb/shale/internal/benchmark"
)

// bench prints the table of package benchmark. The words after -- are options of
// that package.
func bench(ctx context.Context, s *Session, a Arguments) (Status, error) {
	var args []string
	for _, o := range benchOptions {
		if a.has(o.Name) {
			args = append(args, "-"+o.Name+"="+a.values[o.Name])
		}
	}
	for _, w := range a.Words {
		args = append(args, w.Text)
	}
	if err := benchmark.Run(ctx, "bench --", args, promptly{s.Out}); err != nil {
		return Failed, err
	}
	return Found, nil
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
