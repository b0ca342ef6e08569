package command

import (
	"bufio"
	"context"

	"github.com/shaledb/shale/internal/benchmark"
)

// benchCommand prints the table of package benchmark. The words after -- are options of that
// package.
func benchCommand() *Command {
	c := New("bench [WORD...]", NeedsNothing, "measure how much reading the filters save", `
Makes a store in a temporary folder, reads it with and without its filters, and prints what lookups of absent
and of present keys cost. It takes half a minute and does not use the store of -C. Words after -- are options of
the benchmark itself; bench -- -h lists them.`)
	var options []string
	pass := func(name, kind, help string) {
		c.option(name, kind, help, func(w Word) error { options = append(options, "-"+name+"="+w.Text); return nil })
	}
	pass("keys", "FILE", "load the lines of this file instead of those of the Go sources; with --absent")
	pass("absent", "FILE", "ask for the lines of this file")
	return c.Does(func(ctx context.Context, s *Session, words []Word) (Status, error) {
		args := options
		for _, w := range words {
			args = append(args, w.Text)
		}
		return Found, benchmark.Run(ctx, "bench --", args, promptly{s.Out})
	})
}

// promptly flushes after each write, because the next lines may take long.
type promptly struct{ w *bufio.Writer }

func (p promptly) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil {
		err = p.w.Flush()
	}
	return n, err
}
