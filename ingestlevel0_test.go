package shale

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/shaledb/shale/vfs"
)

// Ingestions into level 0 beside compactions of a part of their keys: readers and
// snapshots see all of an ingestion or nothing, and a snapshot does not change.
func TestIngest_IntoLevel0(t *testing.T) {
	const keys = 60
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	o := small()
	o.FS, o.CompactionWorkers, o.TableSize = vfs.NewMem(), 2, 4<<10
	value := func(i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("x", 200) } // several tables
	b := &ingestBeside{t: t, db: openTest(t, o), stop: make(chan struct{})}
	mustIngest(t, b.db, sortedKeys(0, keys, value(0)))
	look := func(r Reader) (map[string]int, error) {
		seen := make(map[string]int)
		for e, err := range r.Scan(Prefix("k")) {
			if err != nil {
				return nil, err
			}
			seen[string(e.Value[:6])]++
		}
		if len(seen) != 1 {
			return nil, fmt.Errorf("a scan shows parts of ingestions: %v", seen)
		}
		return seen, nil
	}
	b.while(func(int) error {
		_, err := look(b.db)
		return err
	})
	b.while(func(int) error {
		s, err := b.db.Snapshot()
		if err != nil {
			return err
		}
		defer s.Close() // once
		var first map[string]int
		for n := range 3 {
			seen, err := look(s)
			if err != nil {
				return err
			}
			if n > 0 && !maps.Equal(seen, first) {
				return fmt.Errorf("a snapshot shows %v, and then %v", first, seen)
			}
			first = seen
		}
		return nil
	})
	b.while(func(i int) error {
		return b.db.Compact(context.Background(), Range{Lower: fmt.Appendf(nil, "k%06d", i%keys), Upper: fmt.Appendf(nil, "k%06d", i%keys+10)})
	})
	for i := 1; i <= rounds && !t.Failed(); i++ {
		if err := b.db.Ingest(context.Background(), sortedKeys(0, keys, value(i))); err != nil {
			t.Error(err)
		}
	}
	close(b.stop)
	b.group.Wait()
	if !t.Failed() {
		wantGet(t, b.db, "k000000", value(rounds), true)
	}
}
