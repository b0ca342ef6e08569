package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A Loading holds the parameters of Load and Step.
type Loading struct {
	NextFileNum base.FileNum
	SessionOf   func(num base.FileNum) uint64 // the session that has written a file; 0: not known
	Filters     bool                          // the first lookup that needs a filter loads it
	// Moving makes a missing sidecar an error of Step: a writer may have
	// replaced the sidecar meanwhile, and the manifest says so then.
	Moving bool
	// Elsewhere says where tables may be that are not in the directory; empty: a missing one is damage.
	Elsewhere string
	// IndexMemory limits the bytes of indexes in memory; 0: no limit.
	IndexMemory int64
}

// Load opens the tables of meta and makes it the current version. Of each table it reads only the end of
// the file, with the footer and the properties, and checks that. complete says that this has brought all
// filters and indexes along. Load is called once, before all other methods that need a version.
func (t *Tree) Load(meta *manifest.Version, how Loading) (v *Version, complete bool, err error) {
	metas := slices.Collect(meta.Tables())
	opened := make([]*Table, len(metas))
	complete, err = t.openTables(opened, metas, how)
	if err != nil {
		return nil, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables = make(map[base.FileNum]*Table, len(opened))
	t.sidecars = make(map[base.FileNum]*Sidecar)
	var beside []*Sidecar
	for _, table := range opened {
		if table.opened != nil {
			beside = append(beside, table.opened)
		}
		t.tables[table.Meta.Num] = table
	}
	v = newVersion(meta, t.tables)
	t.appendLocked(v, opened, beside, nil)
	t.version, t.nextFileNum = v, how.NextFileNum
	return v, complete, nil
}

// missing returns err, the error with which a table could not be opened. If the file is not there, it says what that
// means.
func (l Loading) missing(err error, name string) error {
	if l.Elsewhere != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s may be in %s: %v", base.ErrElsewhere, name, l.Elsewhere, err) // fs.ErrNotExist would say that there is no store
	}
	return base.MissingIsDamage(err, name)
}

// openers is how many goroutines open tables: as many requests as a disk likes to have.
const openers = 16

// openTables opens the tables that metas describe, several at a time. tables has a place for each, and
// those that it has already are not opened. If a table fails to open, the others stay open. The error is
// that of the first such table of metas, so that the same damage gives the same error each time.
// complete is as in Load.
func (t *Tree) openTables(tables []*Table, metas []*manifest.Table, how Loading) (complete bool, err error) {
	var next, indexed atomic.Int64 // the next table to be opened; bytes of indexes that are in memory, or will be
	var left atomic.Bool
	var mu sync.Mutex
	failed := len(metas) // the first table that has failed to open, with the error err; guarded by mu
	var wg sync.WaitGroup
	for range min(openers, len(metas)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(metas) {
					return
				}
				if tables[i] == nil {
					opts := t.env.Reading()
					opts.NoFilter = opts.NoFilter || !how.Filters
					opts.NoIndex = how.IndexMemory > 0 && indexed.Load() >= how.IndexMemory
					opts.Later = true
					opts.Session = how.SessionOf(metas[i].Num)
					openErr := base.Survive(func() (err error) {
						tables[i], err = t.openTable(metas[i], opts)
						return err
					})
					if openErr != nil {
						mu.Lock()
						if i < failed {
							failed, err = i, how.missing(openErr, base.TableName(metas[i].Num))
						}
						mu.Unlock()
						return // the others open what is left: see Step
					}
				}
				indexed.Add(tables[i].Reader.IndexBytes())
				if tables[i].Reader.HasLeft() {
					left.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return how.Filters && !left.Load(), err
}
