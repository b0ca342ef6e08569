package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// grace is how long a child that was told to end may take: a session that
// compacts all at its end.
const grace = patience + time.Minute

// A parent runs one child after the other.
type parent struct {
	config
	root  string
	model *model
	trend trend // of all lives
	figures
}

func newParent(c config, root string, out io.Writer) *parent {
	return &parent{config: c, root: root, model: newModel(c.keys), figures: newFigures(out, root), trend: trend{name: "the store in the course of the run"}}
}

// run runs lives until the time is over, and the last one.
func (p *parent) run(ctx context.Context) error {
	defer p.summary()
	for life, last := 0, false; !last; life++ {
		last = time.Since(p.begin) >= p.time || ctx.Err() != nil
		if err := p.liveAndLearn(ctx, life, last); err != nil {
			return p.finding(err)
		}
		if p.between != nil {
			p.between(life, filepath.Join(p.root, "store"))
		}
	}
	if err := p.trend.check(); err != nil {
		return p.finding(err)
	}
	return nil
}

// finding prints a finding.
func (p *parent) finding(err error) error {
	p.violations++
	fmt.Fprintf(p.out, "FINDING (seed %d): %v\n", p.seed, err)
	return errFinding
}

// liveAndLearn runs a life and then the commits that it has made.
func (p *parent) liveAndLearn(ctx context.Context, life int, last bool) error {
	if err := p.model.save(filepath.Join(p.root, "model")); err != nil {
		return err
	}
	if err := p.live(ctx, life, last); err != nil {
		return err
	}
	err := readJournal(journalPath(p.root, life), func(e entry) error { return p.model.settle(p.seed, e) })
	if err != nil {
		return fmt.Errorf("life %d: %w", life, err)
	}
	if err := os.Remove(journalPath(p.root, life)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return p.removeCopies()
}

// removeCopies removes the checkpoints that a killed child has left.
func (p *parent) removeCopies() error {
	dirs, err := filepath.Glob(filepath.Join(p.root, "copy-*"))
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
