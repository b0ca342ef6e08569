package buckettest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/remote"
)

// Calls at the same time. Ownership of a store rests on the first of these tests.

// creators is how many goroutines create the same object at the same time.
const creators = 32

// together runs fn in n goroutines, which begin at the same time, and waits for them.
// The common beginning makes calls overlap that would otherwise follow each other, since goroutines
// start one by one.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			fn(i)
		})
	}
	close(begin)
	wg.Wait()
}

// creatorsRace lets 32 goroutines create an object, twenty times. One must win, and the object
// must be its. Half of the names are in a folder that does not exist before.
func (s *suite) creatorsRace() {
	for round := range 20 {
		name := fmt.Sprintf("m/%02d", round)
		if round%2 == 0 {
			name = fmt.Sprintf("w/%02d/0", round)
		}
		var winners atomic.Int64
		var winner atomic.Int64
		together(creators, func(i int) {
			err := remote.PutObject(s.ctx, s.b, name, pattern(100+i, uint64(i)), true)
			switch {
			case err == nil:
				// Put succeeds for one writer. If it did for two, both would believe that they own the store.
				winners.Add(1)
				winner.Store(int64(i))
			case !errors.Is(err, remote.ErrExists):
				s.Errorf("%s: %v, want ErrExists", name, err)
			default:
				// A loser may rely on the object that has won.
				if _, err := s.b.Stat(s.ctx, name); err != nil {
					s.Errorf("%s exists, but: %v", name, err)
				}
			}
		})
		if winners.Load() != 1 {
			s.Errorf("%s: %d of %d creators won, want 1", name, winners.Load(), creators)
			continue
		}
		i := int(winner.Load())
		s.is(name, pattern(100+i, uint64(i)))
	}
}

// writersRace replaces one object from several goroutines, while others read it. Every reader sees
// one whole object.
func (s *suite) writersRace() {
	// The object is longer than a page and a usual buffer, so a mixture of two of them would show.
	const size = 20000
	s.put("t/00/object", pattern(size, 0))
	valid := func(b []byte) bool {
		for i := range uint64(4) {
			if bytes.Equal(b, pattern(size, i)) {
				return true
			}
		}
		return false
	}
	together(8, func(i int) {
		for range 15 {
			if i < 4 {
				if err := remote.PutObject(s.ctx, s.b, "t/00/object", pattern(size, uint64(i)), false); err != nil {
					s.Error(err)
				}
				continue
			}
			// With one byte more than there is, the read has to end with io.EOF.
			p := make([]byte, size+1)
			n, err := s.b.ReadAt(s.ctx, "t/00/object", p, 0)
			if err != io.EOF || !valid(p[:n]) {
				s.Errorf("ReadAt = %s, %v: not one of the objects", brief(p[:n]), err)
			}
		}
	})
}

// deletersRace makes and deletes objects of one folder from several goroutines, so that the folder
// comes and goes. Each goroutine sees its own changes.
func (s *suite) deletersRace() {
	together(8, func(i int) {
		name := fmt.Sprintf("w/1/%d", i)
		for round := range 20 {
			data := pattern(10+round, uint64(i))
			if err := remote.PutObject(s.ctx, s.b, name, data, true); err != nil {
				s.Errorf("%s, round %d: %v", name, round, err)
				return
			}
			if got, err := remote.ReadObject(s.ctx, s.b, name, 100); err != nil || !bytes.Equal(got, data) {
				s.Errorf("%s, round %d: %s, %v", name, round, brief(got), err)
			}
			if err := s.b.Delete(s.ctx, name); err != nil {
				s.Errorf("%s, round %d: %v", name, round, err)
			}
			if _, err := s.b.Stat(s.ctx, name); !errors.Is(err, fs.ErrNotExist) {
				s.Errorf("%s, round %d, deleted: %v, want fs.ErrNotExist", name, round, err)
			}
		}
	})
	if got := s.list("", ""); len(got) > 0 {
		s.Errorf("List = %q after everything was deleted", got)
	}
}

// listRace lists while objects come and go. A list is in order, and has every object that is there
// all the time, and every one that was made before the list began.
// A collection deletes by a list, and a writer looks for its successors in one. An object that a
// list passes by would be deleted too late, or be overlooked.
func (s *suite) listRace() {
	for i := range 50 {
		s.put(fmt.Sprintf("s/%02d", 2*i), nil)
	}
	together(4, func(g int) {
		for i := range 25 {
			name := fmt.Sprintf("s/%02d", (2*i*(g+1)+1)%100)
			if g < 2 { // two goroutines make objects, each its own, and delete them
				name += fmt.Sprint("-", g)
				if err := errors.Join(remote.PutObject(s.ctx, s.b, name, nil, true), s.listed(name), s.b.Delete(s.ctx, name)); err != nil {
					s.Error(err)
				}
				continue
			}
			// Objects with even numbers are there all the time. Names with a dash come and go.
			stable, last := 0, ""
			for info, err := range s.b.List(s.ctx, "s/", "") {
				if err != nil {
					s.Error(err)
					return
				}
				if info.Name <= last {
					s.Errorf("List has %s after %s", info.Name, last)
				}
				last = info.Name
				if !strings.Contains(last, "-") {
					stable++
				}
			}
			if stable != 50 {
				s.Errorf("List has %d of 50 objects that are there all the time", stable)
			}
		}
	})
}

// listed returns an error if a list that begins now does not have an object.
func (s *suite) listed(name string) error {
	for info, err := range s.b.List(s.ctx, name, "") {
		if err != nil || info.Name == name {
			return err
		}
	}
	return fmt.Errorf("List does not have %s, which was put before", name)
}
