package shale

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// smallDisks are file systems on which a store finds no room.
var smallDisks = map[string]func(t *testing.T) *testMount{
	"tmpfs": func(t *testing.T) *testMount { return mountTmpfs(t, 24) },
	"ext4":  func(t *testing.T) *testMount { return mountImage(t, "ext4", "", 32) },
	"xfs":   func(t *testing.T) *testMount { return mountImage(t, "xfs", "", 320) }, // mkfs.xfs makes none below 300
}

// A crowdedStore is a store on a disk that is full now and then.
type crowdedStore struct {
	t      *testing.T
	disk   *testMount
	r      *rand.Rand
	opts   Options
	db     *DB
	seed   uint64
	states [3]killState // of the writers, of which each makes its commits in order
	acked  [3]int

	// Figures.
	rounds, refused, resumed, byItself, reopened int
}

func (s *crowdedStore) open() {
	s.t.Helper()
	db, err := Open(s.disk.path("db"), &s.opts)
	if err != nil {
		s.t.Fatalf("round %d: Open: %v", s.rounds, err)
	}
	s.db = db
	s.t.Cleanup(func() { _ = db.Close() }) // should the test have failed
}

// check compares the store with what was acknowledged. Of each writer one more
// commit may be there, which failed, if the store was opened since.
func (s *crowdedStore) check(opened bool) {
	s.t.Helper()
	for w := range s.states {
		st := &s.states[w]
		if err := st.check(s.db, s.seed, s.acked[w]); err != nil {
			s.t.Fatalf("round %d: %v", s.rounds, err)
		}
		if st.n > s.acked[w] && !opened {
			s.t.Fatalf("round %d: writer %d: commit %d is there, which failed", s.rounds, w, st.n)
		}
		s.acked[w] = st.n
	}
}

// wantNoSpace checks an error, if it is one, that a full disk excuses.
func (s *crowdedStore) wantNoSpace(what string, err error) {
	s.t.Helper()
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		s.t.Errorf("round %d: %s on a full disk: %v, want ENOSPC", s.rounds, what, err)
	}
}

// crowd writes with all writers until each is refused, or has made n commits.
func (s *crowdedStore) crowd(n int) {
	s.t.Helper()
	var wg sync.WaitGroup
	var failed [len(s.states)]error
	for w := range s.states {
		wg.Go(func() {
			for range n {
				if failed[w] = s.db.Write(context.Background(), killCommit(s.seed, w, s.acked[w]+1)); failed[w] != nil {
					return
				}
				s.acked[w]++
			}
		})
	}
	within(s.t, time.Minute, "a writer on a full disk", wg.Wait)
	refused := false
	for _, err := range failed {
		s.wantNoSpace("Write", err)
		if err != nil && !errors.Is(err, ErrReadOnly) {
			s.t.Errorf("round %d: Write on a full disk: %v, want ErrReadOnly", s.rounds, err)
		}
		refused = refused || err != nil
	}
	if refused {
		s.refused++
	}
}

// maintain does what else needs room.
func (s *crowdedStore) maintain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch s.r.IntN(4) {
	case 0:
		s.wantNoSpace("Flush", s.db.Flush(ctx))
	case 1:
		s.wantNoSpace("Compact", s.db.Compact(ctx, Range{}))
	case 2:
		dir := s.disk.path("copy")
		s.wantNoSpace("Checkpoint", s.db.Checkpoint(dir))
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
	default:
		s.wantNoSpace("Sync", s.db.Sync())
	}
	s.wantNoSpace("Verify", s.db.Verify(ctx))
}

// resume makes the writers go on with the same handle: Resume is for when the
// log had no room for a write, and nothing is for all else.
func (s *crowdedStore) resume() {
	s.t.Helper()
	byItself := s.db.Err() == nil
	if !byItself {
		if err := s.db.Resume(); err != nil {
			s.t.Errorf("round %d: Resume with room: %v", s.rounds, err)
		}
	}
	for range 100 {
		for w := range s.states {
			s.mustWrite(w)
		}
	}
	s.resumed++
	if byItself {
		s.byItself++
	}
}

// mustWrite makes a writer's next commit, when what the full disk was in the way
// of has been tried again, which takes up to five seconds.
func (s *crowdedStore) mustWrite(w int) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := s.db.Write(context.Background(), killCommit(s.seed, w, s.acked[w]+1))
		if err == nil {
			s.acked[w]++
			return
		}
		if s.wantNoSpace("Write", err); s.t.Failed() || time.Now().After(deadline) {
			s.t.Fatalf("round %d: Write with room: %v", s.rounds, err)
		}
	}
}

// round fills the disk and makes room again.
func (s *crowdedStore) round() {
	s.rounds++
	left := s.r.Int64N(512 << 10)
	if s.r.IntN(4) == 0 {
		left = 0
	}
	s.disk.fillTo(left)
	s.crowd(4000)
	s.maintain()
	s.check(false)
	if s.r.IntN(5) == 0 { // end it, as it is
		s.reopened++
		s.wantNoSpace("Close", s.db.Close())
		s.disk.release()
		s.open()
		s.check(true)
		s.crowd(100)
		return
	}
	s.disk.release()
	s.resume()
	s.check(false)
}

// Disks are full and have room again. While they are full writers get errors
// that say so, and reads go on; then the same handle takes writes again, and
// nothing that was acknowledged is lost.
func TestNoSpace(t *testing.T) {
	for name, mount := range smallDisks {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			seed, long := seedOf(t), longRun(t)/time.Duration(len(smallDisks))
			if long == 0 && name != "tmpfs" {
				t.Skip("only with SHALE_LONG")
			}
			disk := mount(t)
			begin := time.Now()
			s := &crowdedStore{t: t, disk: disk, seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
			for w := range s.states {
				s.states[w] = killState{writer: w, entries: make(map[string]string)}
			}
			rounds := 3
			if testing.Short() {
				rounds = 1
			}
			for lives := 0; lives < 2 || time.Since(begin) < long; lives++ {
				s.life(rounds)
			}
			if s.refused == 0 {
				t.Error("no writer has met a full disk")
			}
			t.Logf("%d rounds, refused in %d; resumed on the same handle in %d of %d, by itself in %d; reopened in %d; %d commits in %v",
				s.rounds, s.refused, s.resumed, s.rounds-s.reopened, s.byItself, s.reopened,
				s.acked[0]+s.acked[1]+s.acked[2], time.Since(begin).Round(time.Millisecond))
		})
	}
}

// life opens the store with other options than before, for some rounds, and
// closes it.
func (s *crowdedStore) life(rounds int) {
	s.opts = *killOptions(s.r.IntN(4))
	s.opts.Compression = NoCompression
	s.opts.CompactionWorkers += s.r.IntN(2)
	s.open()
	for range rounds {
		if s.round(); s.t.Failed() {
			s.t.FailNow()
		}
	}
	if err := s.db.Close(); err != nil {
		s.t.Fatalf("Close with room: %v", err)
	}
	s.open()
	s.check(false)
	closeTest(s.t, s.db)
}
