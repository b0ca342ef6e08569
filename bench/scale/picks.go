package main

import (
	"errors"

	"github.com/shaledb/shale/compaction"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// picks measures the choice of the next compaction.
func (s *session) picks() ([]float64, error) {
	state, err := manifest.Load(vfs.Default, s.path)
	if err != nil {
		return nil, err
	}
	return s.picksFrom(state.Version)
}

// picksOfLevel0 measures the same after a large ingestion: the tables of the last level are
// one run of level 0. None of them was in this place before.
func (s *session) picksOfLevel0() ([]float64, error) {
	state, err := manifest.Load(vfs.Default, s.path)
	if err != nil {
		return nil, err
	}
	edit := new(manifest.Edit)
	for _, run := range state.Version.Levels[manifest.NumLevels-1].Runs {
		for _, t := range run.Tables {
			edit.Removed = append(edit.Removed, manifest.Removed{Level: manifest.NumLevels - 1, Num: t.Num, Table: t})
			edit.Added = append(edit.Added, manifest.Added{Level: 0, Run: uint64(state.NextFileNum), Table: t})
		}
	}
	v, err := state.Version.Apply(edit)
	if err != nil {
		return nil, err
	}
	return s.picksFrom(v)
}

// picksFrom measures the first pick of a version. What Pick may keep with a version is not
// there yet: each call gets a version of its own.
func (s *session) picksFrom(v *manifest.Version) ([]float64, error) {
	return s.each(func() ([]float64, error) {
		next := *v
		return timed(func() error {
			opts := s.shape()
			opts.DropSeq = base.MaxSeq
			if plan := compaction.Pick(&next, opts, compaction.InFlight{}); plan.Kind == compaction.Nothing {
				return errors.New("there is nothing to compact")
			}
			return nil
		})
	})
}

// count returns how many tables the store has.
func (s *session) count() (float64, error) {
	state, err := manifest.Load(vfs.Default, s.path)
	if err != nil {
		return 0, err
	}
	return float64(state.Version.NumTables()), nil
}
