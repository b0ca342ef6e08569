package remote

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
)

// TestReader_IteratorMeetsDamage changes what is fetched of a table once. An iterator ends with the error; the next one
// fetches again what the cache has of it. The error names the object. So does that of a snapshot, and the event.
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
	flipped := false
	b.OnAnswer(func(name string, p []byte, off int64) {
		if !flipped && remotetest.FolderOf(name) == object.TableFolder && off >= 0 {
			flipped = true
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
	var damage *shale.CorruptionError
	n, err := walk()
	if !errors.As(err, &damage) || !flipped {
		t.Fatalf("the first walk: %d keys, %v", n, err)
	}
	name, ok := object.ParseName(damage.File)
	if !ok || name.Kind != object.KindTable || len(events) != 1 || !strings.Contains(events[0], damage.File) {
		t.Errorf("the error names %q, the events are %q", damage.File, events)
	}
	if n, err := walk(); n != 300 || err != nil {
		t.Errorf("the second walk: %d keys, %v", n, err)
	}
	s, err := r.Snapshot(t.Context())
	mustNil(t, err)
	defer s.Close()
	r.files.Forget(name.Num)
	flipped = false
	for key := range w.modelAt(r.Seq()) {
		if _, err = s.Get([]byte(key)); err != nil {
			break
		}
	}
	if !errors.As(err, &damage) || damage.File != name.String() {
		t.Errorf("Get of a snapshot: %v, want damage of %v", err, name)
	}
}
