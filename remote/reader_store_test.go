package remote

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/tablefs"
	"github.com/shaledb/shale/vfs"
)

// TestReader_IteratorMeetsDamage changes what is fetched of a table, once: an iterator fetches it again, and nobody learns of
// it. If it is changed each time, the iterator ends with an error that names the object. So does a read of a snapshot,
// and the event.
func TestReader_IteratorMeetsDamage(t *testing.T) {
	b := remotetest.NewFake(NewMem())
	w := startWriter(t, b, 6, shale.Options{})
	w.bulk()
	w.publish()
	var events []string
	r := openTestReader(t, b, ReaderOptions{Store: shale.Options{CacheSize: -1, OnEvent: func(e shale.Event) {
		if e.Kind == shale.EventCorruption {
			events = append(events, e.Err.Error())
		}
	}}})
	var flips atomic.Int64 // answers that are still to be changed
	flips.Store(1)
	b.OnAnswer(func(name string, p []byte, off int64) {
		if remotetest.FolderOf(name) == object.TableFolder && off >= 0 && flips.Add(-1) >= 0 {
			for i := range p {
				p[i] ^= 1
			}
		}
	})
	walk := func() (n int, err error) {
		it := r.NewIterator(shale.Range{})
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			if want := w.modelAt(r.Seq())[string(it.Key())]; !bytes.Equal(it.Value(), want) {
				t.Fatalf("%s = %.10q, want %.10q", it.Key(), it.Value(), want)
			}
			n++
		}
		return n, it.Err()
	}
	if n, err := walk(); n != 300 || err != nil || flips.Load() > 0 || len(events) > 0 {
		t.Fatalf("a walk that meets damage once: %d keys, %v; %d answers are still to be changed; events %q", n, err, flips.Load(), events)
	}
	name := object.Name{Kind: object.KindTable}
	for f := range r.follow.chain.State.Tables.Version.Tables() {
		name.Num = uint64(f.Num)
	}
	handle, err := r.openTable(name)
	mustNil(t, err)
	mustNil(t, handle.Refetch()) // nothing is cached any more
	mustNil(t, handle.(vfs.File).Close())
	flips.Store(1000)
	n, err := walk()
	var damage *shale.CorruptionError
	if !errors.As(err, &damage) || damage.File != name.String() || len(events) != 1 || !strings.Contains(events[0], damage.File) {
		t.Fatalf("damage that stays: %d keys, %v; events %q", n, err, events)
	}
	s, err := r.Snapshot(t.Context())
	mustNil(t, err)
	defer s.Close()
	for key := range w.modelAt(r.Seq()) {
		if _, err = s.Get([]byte(key)); err != nil {
			break
		}
	}
	if !errors.As(err, &damage) || damage.File != name.String() {
		t.Errorf("Get of a snapshot: %v, want damage of %v", err, name)
	}
}

// openTable opens a table of the Reader.
func (r *Reader) openTable(name object.Name) (vfs.RemoteFile, error) {
	f, err := (&tablefs.FS{FS: r.mem, Tables: r.files}).Open(filepath.Join(followDir, base.TableName(base.FileNum(name.Num))))
	if err != nil {
		return nil, err
	}
	return f.(vfs.RemoteFile), nil
}
