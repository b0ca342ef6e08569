package remote

import (
	"fmt"

	"github.com/shaledb/shale/remote/internal/tablefs"
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

// Places returns where the tables are, for each level that has some, from level 0 on.
func (s *Store) Places() ([]LevelPlaces, error) {
	state, err := s.state()
	if err != nil {
		return nil, fmt.Errorf("remote: places: %w", err)
	}
	inBucket := tablefs.NumsOf(s.named.Load())
	var all []LevelPlaces
	for a := range placedTables(state.Version) {
		if len(all) == 0 || all[len(all)-1].Level != a.Level {
			all = append(all, LevelPlaces{Level: a.Level})
		}
		l := &all[len(all)-1]
		sum := &l.Local
		if s.evicting.has(a.Table) {
			sum = &l.Bucket
		} else if inBucket[uint64(a.Table.Num)] {
			sum = &l.Both
		}
		sum.Tables++
		sum.Bytes += a.Table.Size
	}
	return all, nil
}
