package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
)

// A session measures one store.
type session struct {
	spec
	ctx               context.Context
	path              string // of the store
	budget            time.Duration
	db                *shale.DB // the store or its copy; nil in stage closed
	written, ingested int       // keys put and ingested into the copy so far
}

// measure measures groups, and returns the figures by the names of their rows.
func (s *session) measure(some []group) (map[string]float64, error) {
	figures := make(map[string]float64)
	for stage := range stages {
		var now []group
		for _, g := range some {
			if g.stage == stage {
				now = append(now, g)
			}
		}
		if len(now) == 0 {
			continue
		}
		if err := s.measureStage(stage, now, figures); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// measureStage opens what the stage needs, measures groups, and closes it again.
func (s *session) measureStage(stage stage, some []group, figures map[string]float64) (err error) {
	end, err := s.begin(stage)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, g := range some {
		values, err := g.measure(s)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", s.title(), g.rows[0].name, err)
		}
		for i, r := range g.rows {
			figures[r.name] = values[i]
		}
	}
	return nil
}

// begin makes the store ready for a stage. end undoes that.
func (s *session) begin(stage stage) (end func() error, err error) {
	switch stage {
	case read:
		if s.db, err = shale.Open(s.path, s.reading()); err != nil {
			return nil, err
		}
		awaitLoaded(s.db)
		return s.close, nil
	case written:
		copied, err := s.copy()
		if err != nil {
			return nil, err
		}
		remove := func() error { return errors.Join(s.close(), os.RemoveAll(copied)) }
		if s.db, err = shale.Open(copied, s.writing()); err != nil {
			return nil, errors.Join(err, remove())
		}
		awaitLoaded(s.db)
		return remove, nil
	}
	return func() error { return nil }, nil
}

func (s *session) close() error {
	if s.db == nil {
		return nil
	}
	err := s.db.Close()
	s.db = nil
	return err
}

// copy makes a copy of the store next to it, which shares its tables, and returns its path.
func (s *session) copy() (path string, err error) {
	path = filepath.Join(filepath.Dir(s.path), "copy")
	if err := os.RemoveAll(path); err != nil { // of a run that was interrupted
		return "", err
	}
	db, err := shale.Open(s.path, s.reading())
	if err != nil {
		return "", err
	}
	return path, errors.Join(db.Checkpoint(path), db.Close())
}
