package remote

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// tailFiles returns the names of the local files of all tails.
func tailFiles(t *testing.T, disk vfs.FS) (tails []string) {
	t.Helper()
	top := filepath.Join("db", copiesDir, filepath.FromSlash(object.TableFolder))
	folders, err := disk.List(top)
	mustNil(t, err)
	for _, folder := range folders {
		names, err := disk.List(filepath.Join(top, folder))
		mustNil(t, err)
		for _, name := range names {
			tails = append(tails, filepath.Join(top, folder, name))
		}
	}
	return tails
}

// spoilTails makes these files empty, as a power cut may, and returns how many there are.
func spoilTails(t *testing.T, disk vfs.FS) (n int) {
	t.Helper()
	tails := tailFiles(t, disk)
	for _, name := range tails {
		remotetest.ChangeFile(t, disk, name, func([]byte) []byte { return nil })
	}
	return len(tails)
}

// A power cut leaves the files of tails that were not synced. Open fetches the tails again; if the bucket refuses, it ends with
// its context, and does not wait for the time that a read would.
func TestEvict_TailsLost(t *testing.T) {
	disk := vfs.NewMem()
	b, o := remotetest.NewFake(NewMem()), manual(disk)
	evicting(o)
	s := openStore(t, "db", b, o)
	model := make(map[string]string)
	fillRandom(t, s, model, 5_000)
	settleEvicted(t, s)
	mustNil(t, s.Close())

	o.Store.CompactionWorkers = -1 // nothing but Open reads tables
	tails, gets := spoilTails(t, disk), b.Count("read", object.TableFolder)
	s = openStore(t, "db", b, o)
	if now := b.Count("read", object.TableFolder) - gets; tails < 10 || now != tails {
		t.Errorf("%d GETs for %d lost tails", now, tails)
	}
	sameMap(t, "the store", contents(t, s.DB()), model)
	mustNil(t, s.Close())

	spoilTails(t, disk)
	ctx, cancel := context.WithCancel(t.Context())
	b.HookReads(func(name string) error {
		if strings.HasPrefix(name, object.TableFolder) {
			cancel()
			return errors.New("try again")
		}
		return nil
	})
	testenv.Within(t, tablesWait/2, "Open", func() {
		if _, err := Open(ctx, "db", b, o); !errors.Is(err, context.Canceled) {
			t.Errorf("Open whose context ends: %v", err)
		}
	})
	b.HookReads(nil)
	s = openStore(t, "db", b, o)
	sameMap(t, "after that", contents(t, s.DB()), model)
	mustNil(t, s.Close())
}
