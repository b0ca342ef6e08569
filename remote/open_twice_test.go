package remote

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// TestOpen_Twice opens a store that another program is about to open, uses or closes: once at each request to the bucket,
// and once at each operation on the directory. One of the two is told that the directory is locked, or finds it closed.
// Nobody is fenced, nothing that was written is lost, and the directory can be opened again, also if the second program
// dies.
func TestOpen_Twice(t *testing.T) {
	testenv.CheckLeaks(t)
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for _, c := range []struct {
		what          string
		used, closing bool
		stride        int
	}{{"a new directory", false, false, stride}, {"a used directory", true, false, stride}, {"a directory that is closed", true, true, 1}} {
		points, late := 0, 0
		for at, more := 1, true; more; at += c.stride {
			p := rivals{T: t, what: fmt.Sprintf("%s, point %d", c.what, at), at: at, mem: vfs.NewMem(), bucket: remotetest.NewFake(NewMem()), model: map[string]string{}}
			if c.used {
				s := openStore(t, "db", p.bucket, manual(p.mem))
				put(t, s, p.model, "a", 3)
				mustNil(t, s.Close())
			}
			more = p.run(c.closing)
			if points++; p.second != nil {
				late++
			}
		}
		t.Logf("%s: %d points, the second one had the store at %d of them", c.what, points, late)
		if (late == 0) != c.closing || late == points {
			t.Error("there is nothing between the two")
		}
	}
}

// rivals are two programs that open one directory.
type rivals struct {
	*testing.T
	what   string
	at     int // when the second one comes
	mem    *vfs.Mem
	bucket *remotetest.Fake
	model  map[string]string
	second *Store // nil: it was refused
}

// run lets the first program open, use and close the store. Meanwhile, or if closing is set while it closes it, the second
// one comes. It returns false if there are not so many points.
func (p *rivals) run(closing bool) bool {
	var mu sync.Mutex
	n, counting := 0, !closing
	now := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if !counting {
			return false
		}
		n++
		counting = n != p.at
		return !counting
	}
	meanwhile := func() {
		if !now() {
			return
		}
		var err error
		if p.second, err = Open(p.Context(), "db", p.bucket.Bucket, manual(p.mem)); err == nil {
			put(p.T, p.second, p.model, "second", 2)
			mustNil(p, p.second.Ship(p.Context()))
		} else if !errors.Is(err, vfs.ErrLocked) {
			p.Errorf("%s: the second one: %v", p.what, err)
		}
	}
	p.bucket.Hook(func(string, string) error { meanwhile(); return nil }, nil)
	faults := faultfs.New(p.mem, func(vfs.Op, string, int64) error { meanwhile(); return nil })
	s, err := Open(p.Context(), "db", p.bucket, manual(faults))
	if err == nil {
		put(p.T, s, p.model, "first", 2)
		mustNil(p, s.Ship(p.Context()))
		put(p.T, s, p.model, "last", 1)
		mu.Lock()
		counting = counting || closing
		mu.Unlock()
		err = s.Close()
	} else if p.second == nil || !errors.Is(err, vfs.ErrLocked) {
		p.Errorf("%s: the first one: %v", p.what, err)
	}
	if p.second == nil && err != nil {
		p.Errorf("%s: the first one is not closed: %v", p.what, err)
	}
	p.bucket.Hook(nil, nil)
	p.after()
	return n >= p.at
}

// after closes the second program, or lets it die, and then opens the directory once more.
func (p *rivals) after() {
	if p.second != nil && p.at%2 == 0 {
		p.mem = copyOf(p.mem) // it dies
	} else if p.second != nil {
		if err := p.second.Close(); err != nil {
			p.Errorf("%s: the second one is closed: %v", p.what, err)
		}
	}
	last, err := Open(p.Context(), "db", p.bucket, manual(p.mem))
	if err != nil {
		p.Fatalf("%s: the next one: %v", p.what, err)
	}
	sameMap(p.T, p.what, contents(p.T, last.DB()), p.model)
	put(p.T, last, p.model, "third", 1)
	mustNil(p, last.Publish(p.Context()))
	mustNil(p, last.Close())
	sameMap(p.T, p.what+", restored", restoredContents(p.T, p.bucket), p.model)
	if p.second != nil {
		_ = p.second.Close() // one that has died is fenced
	}
	if p.Failed() {
		p.FailNow()
	}
}
