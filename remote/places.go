package remote

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/buckets"
	"github.com/shaledb/shale/remote/internal/chain"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
)

// A LevelPlaces says where the tables of one level are.
type LevelPlaces struct {
	Level  int
	Local  TableSum // on the local disk only: the newest step lacks them
	Both   TableSum // on the local disk and in the bucket
	Bucket TableSum // in the bucket only: see Options.LocalBytes
}

// A TableSum is how many tables there are, and how many bytes they have together.
type TableSum struct {
	Tables int
	Bytes  int64
}

// Places returns where the tables of each level are. It begins with level 0 and leaves out levels that have no tables. Package
// remotedebug shows this on the page of package debug and among its metrics.
func (s *Store) Places() ([]LevelPlaces, error) {
	state, err := s.state()
	if err != nil {
		return nil, fmt.Errorf("remote: places: %w", err)
	}
	return placesOf(state.Version, s.named.Load(), s.evicting.has), nil
}

// placesOf returns where the tables of a version are, of which the newest step has those of another.
func placesOf(v, named *manifest.Version, gone func(*manifest.Table) bool) (all []LevelPlaces) {
	inBucket := tablefs.NumsOf(named)
	for a := range placedTables(v) {
		if len(all) == 0 || all[len(all)-1].Level != a.Level {
			all = append(all, LevelPlaces{Level: a.Level})
		}
		l := &all[len(all)-1]
		sum := &l.Local
		if gone(a.Table) {
			sum = &l.Bucket
		} else if inBucket[uint64(a.Table.Num)] {
			sum = &l.Both
		}
		sum.Tables++
		sum.Bytes += a.Table.Size
	}
	return all
}

// PlacesIn returns where the tables of the store in a directory are, as Store.Places does: by the manifest, the names of the
// files, and the newest step in the bucket. It changes nothing, and another program may have the store open. nil stands for
// [vfs.Default].
func PlacesIn(ctx context.Context, fsys vfs.FS, dir string, b Bucket) (all []LevelPlaces, err error) {
	setDefault(&fsys, vfs.Default)
	for range 3 { // a compaction may remove tables between two looks
		if all, err = placesIn(ctx, fsys, dir, buckets.Retrying(b)); !errors.Is(err, errNowhere) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("remote: places of %s: %w", dir, err)
	}
	return all, nil
}

// errNowhere says that a table of the manifest is in no place.
var errNowhere = errors.New("it is neither in the directory nor in the newest step of the bucket: open the store, which says what is missing")

// placesIn is one attempt of PlacesIn.
func placesIn(ctx context.Context, fsys vfs.FS, dir string, b Bucket) ([]LevelPlaces, error) {
	state, err := manifest.Load(fsys, dir)
	if err != nil {
		return nil, err
	}
	id, err := chain.ReadIdentity(ctx, b)
	if err != nil {
		return nil, err
	}
	if id.StoreID != state.StoreID {
		return nil, fmt.Errorf("%w: store %016x; the directory has store %016x", ErrOtherStore, id.StoreID, state.StoreID)
	}
	c, err := chain.LoadChain(ctx, b, id.StoreID, 0)
	if err != nil {
		return nil, err
	}
	here, err := localdir.Names(fsys, dir)
	if err != nil {
		return nil, err
	}
	named := tablefs.NumsOf(c.State.Tables.Version)
	gone := func(t *manifest.Table) bool { return !here[tablefs.FileOf(t).LocalName()] }
	for t := range state.Version.Tables() {
		if gone(t) && !named[uint64(t.Num)] {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, tablefs.FileOf(t).LocalName()), errNowhere)
		}
	}
	return placesOf(state.Version, c.State.Tables.Version, gone), nil
}
