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
	return s.perCall(func() error { return s.pick(state.Version) })
}

// perRun is how many tables a run of level 0 has in picksOfLevel0.
const perRun = 10

// picksOfLevel0 measures the same after many ingestions: the tables of the last level are
// runs of level 0.
func (s *session) picksOfLevel0() ([]float64, error) {
	state, err := manifest.Load(vfs.Default, s.path)
	if err != nil {
		return nil, err
	}
	edit := new(manifest.Edit)
	n := 0
	for _, run := range state.Version.Levels[manifest.NumLevels-1].Runs {
		for _, t := range run.Tables {
			id := uint64(state.NextFileNum) + uint64(n/perRun)
			edit.Removed = append(edit.Removed, manifest.Removed{Level: manifest.NumLevels - 1, Num: t.Num, Table: t})
			edit.Added = append(edit.Added, manifest.Added{Level: 0, Run: id, Table: t})
			n++
		}
	}
	v, err := state.Version.Apply(edit)
	if err != nil {
		return nil, err
	}
	return s.perCall(func() error { return s.pick(v) })
}

// pick picks a compaction of v, which has to need one.
func (s *session) pick(v *manifest.Version) error {
	opts := s.shape()
	opts.DropSeq = base.MaxSeq
	if plan := compaction.Pick(v, opts, compaction.InFlight{}); plan.Kind == compaction.Nothing {
		return errors.New("there is nothing to compact")
	}
	return nil
}

// count returns how many tables the store has.
func (s *session) count() (float64, error) {
	state, err := manifest.Load(vfs.Default, s.path)
	if err != nil {
		return 0, err
	}
	return float64(state.Version.NumTables()), nil
}
