package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/shaledb/shale/internal/outfile"
)

// run makes the stores, measures them one after the other, and prints the tables to out.
// Lines about what is going on go to progress.
func run(ctx context.Context, c config, out, progress io.Writer) (err error) {
	dir, remove, err := c.place()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	var all []column
	for _, s := range c.stores {
		figures, err := c.measure(ctx, s, dir, progress)
		if err != nil {
			return err
		}
		all = append(all, column{s, figures})
	}
	return c.print(out, all)
}

// place returns the folder of the stores, and a function that removes it if it need not be
// kept. Stores that are kept lie in -dir itself, and others in a temporary folder.
func (c config) place() (dir string, remove func() error, err error) {
	if c.dir != "" {
		if err := outfile.Folder(c.dir); err != nil {
			return "", nil, fmt.Errorf("-dir: %w", err)
		}
		if err := os.MkdirAll(c.dir, 0o755); err != nil {
			return "", nil, fmt.Errorf("-dir: %w", err)
		}
	}
	if c.keep {
		return c.dir, func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp(c.dir, "shale-scale-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// measure makes a store, and returns its figures by the names of the rows. Without -keep it
// removes the store.
func (c config) measure(ctx context.Context, what spec, dir string, progress io.Writer) (figures map[string]float64, err error) {
	path, err := what.make(ctx, dir, progress)
	if err != nil {
		return nil, err
	}
	if !c.keep {
		defer func() { err = errors.Join(err, what.remove(dir)) }()
	}
	fmt.Fprintf(progress, "measuring the store of %s\n", what.title())
	s := &session{spec: what, ctx: ctx, path: path, budget: c.budget}
	return s.measure(chosen(c.rows))
}
