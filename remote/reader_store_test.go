package remote

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestReader_Store follows a Store through random lives in which it is also closed and opened again, and loses what a
// crash takes.
func TestReader_Store(t *testing.T) {
	testenv.CheckLeaks(t)
	for seed := range lives(t, 8) {
		b, mem := NewMem(), vfs.NewMem()
		w := &testWriter{t: t, b: b, random: rand.New(rand.NewPCG(seed, 2))}
		open := func() *Store {
			s, err := Open(t.Context(), "db", b, &Options{Store: shale.Options{FS: mem, MemtableSize: 16 << 10}, Ship: -1, Publish: -1, Flush: -1})
			mustNil(t, err)
			w.db = s.DB()
			return s
		}
		s := open()
		w.commit(w.randomChanges())
		mustNil(t, s.Publish(t.Context()))
		r := openTestReader(t, b, ReaderOptions{})
		look := func() {
			before := r.Seq()
			mustNil(t, r.Refresh(t.Context()))
			if r.Seq() < before {
				t.Fatalf("the reader goes back from %d to %d", before, r.Seq())
			}
			w.check(r, r.Seq())
		}
		for range 200 {
			switch w.random.IntN(14) {
			case 0:
				mustNil(t, s.Publish(t.Context()))
			case 1, 2:
				mustNil(t, s.Ship(t.Context()))
			case 3:
				if w.random.IntN(3) == 0 {
					w.ingest()
				}
			case 4:
				if w.random.IntN(10) == 0 {
					mustNil(t, w.db.Compact(t.Context(), shale.Range{}))
				}
			case 5, 6:
				look()
			case 7:
				if w.random.IntN(4) == 0 {
					mustNil(t, s.Close())
					s = open()
				}
			default:
				w.commit(w.randomChanges())
			}
		}
		mustNil(t, s.Ship(t.Context()))
		mustNil(t, s.Publish(t.Context()))
		last := shale.ShippingOf(w.db).Position().LastSeq
		mustNil(t, r.WaitFor(t.Context(), last))
		look()
		fresh := openTestReader(t, b, ReaderOptions{})
		w.check(fresh, last)
		mustNil(t, fresh.Close())
		mustNil(t, r.Close())
		mustNil(t, s.Close())
	}
}

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
