package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A crowdedStore is a store that lacks something now and then: room on its disk,
// or descriptors.
type crowdedStore struct {
	t       *testing.T
	dir     string
	cause   syscall.Errno // of the errors then
	squeeze func()
	relieve func()
	most    int // commits of a writer in a round
	r       *rand.Rand
	opts    shale.Options
	db      *shale.DB
	streams [3]*harness.Stream // of the writers
	acked   [3]int             // writes of each

	// Figures.
	begin                                                time.Time
	rounds, refused, resumed, byItself, reopened, unread int
}

func newCrowdedStore(t *testing.T, dir string, cause syscall.Errno, seed uint64) *crowdedStore {
	s := &crowdedStore{t: t, dir: dir, cause: cause, r: rand.New(rand.NewPCG(seed, 1)), begin: time.Now()}
	for w := range s.streams {
		s.streams[w] = harness.NewStream(fmt.Sprintf("w%d", w), seed, 4000)
	}
	return s
}

func (s *crowdedStore) String() string {
	return fmt.Sprintf("%d rounds, refused in %d; resumed on the same handle in %d of %d, by itself in %d; reopened in %d; %d commits, none lost, in %v",
		s.rounds, s.refused, s.resumed, s.rounds-s.reopened, s.byItself, s.reopened,
		s.acked[0]+s.acked[1]+s.acked[2], time.Since(s.begin).Round(time.Millisecond))
}

func (s *crowdedStore) open() {
	s.t.Helper()
	db, err := shale.Open(filepath.Join(s.dir, "db"), &s.opts)
	if err != nil {
		s.t.Fatalf("round %d: Open: %v", s.rounds, err)
	}
	s.db = db
	s.t.Cleanup(func() { _ = db.Close() }) // should the test have failed
}

// check compares the store with what was acknowledged. Of each writer one more write may be there, which
// failed, if the store was opened since. Without descriptors reads can fail.
func (s *crowdedStore) check(opened, squeezed bool) {
	s.t.Helper()
	for w, stream := range s.streams {
		begun := s.acked[w]
		if opened {
			begun++
		}
		if err := stream.Check(s.db, s.acked[w], begun); squeezed && s.cause == syscall.EMFILE && errors.Is(err, s.cause) {
			s.unread++
			continue
		} else if err != nil {
			s.t.Fatalf("round %d: %v; %s", s.rounds, err, harness.OptionsText(&s.opts))
		}
		s.acked[w] = stream.N
	}
}

// write makes the next write of a writer. Some are synced, and some as durable as the options say.
func (s *crowdedStore) write(w int, r *rand.Rand) error {
	write := s.streams[w].Write(s.acked[w] + 1)
	switch n := r.IntN(100); {
	case n == 0:
		write.Durability = shale.SyncEach
	case n >= 80:
		write.Own = false
	}
	err := s.db.Write(context.Background(), write.Batch())
	if err == nil {
		s.acked[w]++
	}
	return err
}

// wantExcused checks an error, if it is one, that the squeeze excuses.
func (s *crowdedStore) wantExcused(what string, err error) {
	s.t.Helper()
	if err != nil && !errors.Is(err, s.cause) {
		s.t.Errorf("round %d: %s: %v, want %v", s.rounds, what, err, s.cause)
	}
}

// crowd writes with all writers until each is refused, or has made n commits.
func (s *crowdedStore) crowd(n int) {
	s.t.Helper()
	var wg sync.WaitGroup
	var failed [len(s.streams)]error
	for w := range s.streams {
		r := rand.New(rand.NewPCG(s.r.Uint64(), 0))
		wg.Go(func() {
			for range n {
				if failed[w] = s.write(w, r); failed[w] != nil {
					return
				}
			}
		})
	}
	testenv.Within(s.t, time.Minute, "a writer who is to be refused", wg.Wait)
	refused := false
	for _, err := range failed {
		s.wantExcused("Write", err)
		if err != nil && !errors.Is(err, shale.ErrReadOnly) {
			s.t.Errorf("round %d: Write that fails: %v, want ErrReadOnly", s.rounds, err)
		}
		refused = refused || err != nil
	}
	if refused {
		s.refused++
	}
}

// maintain does what else a store is used for.
func (s *crowdedStore) maintain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch s.r.IntN(4) {
	case 0:
		s.wantExcused("Flush", s.db.Flush(ctx))
	case 1:
		s.wantExcused("Compact", s.db.Compact(ctx, shale.Range{}))
	case 2:
		dir := filepath.Join(s.dir, "copy")
		s.wantExcused("Checkpoint", s.db.Checkpoint(dir))
		if err := os.RemoveAll(dir); err != nil {
			s.t.Error(err)
		}
	default:
		s.wantExcused("Sync", s.db.Sync())
	}
	s.wantExcused("Verify", s.db.Verify(ctx))
}

// resume makes the writers go on with the same handle: by itself, or at once by
// Resume.
func (s *crowdedStore) resume() {
	s.t.Helper()
	byItself := s.r.IntN(4) > 0
	if !byItself {
		if err := s.db.Resume(); err != nil {
			s.t.Errorf("round %d: Resume without need: %v", s.rounds, err)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); s.db.Err() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("round %d: read-only for good: %v", s.rounds, s.db.Err())
		}
	}
	for range 100 {
		for w := range s.streams {
			s.mustWrite(w)
		}
	}
	s.resumed++
	if byItself {
		s.byItself++
	}
}

// mustWrite makes a writer's next commit, when what the squeeze was in the way of
// has been tried again, which takes up to five seconds.
func (s *crowdedStore) mustWrite(w int) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := s.write(w, s.r)
		if err == nil {
			return
		}
		if s.wantExcused("Write", err); s.t.Failed() || time.Now().After(deadline) {
			s.t.Fatalf("round %d: Write without need: %v", s.rounds, err)
		}
	}
}

// round makes things scarce and then plenty again.
func (s *crowdedStore) round() {
	s.rounds++
	s.squeeze()
	s.crowd(s.most)
	s.maintain()
	s.check(false, true)
	if s.r.IntN(5) == 0 { // end it, as it is
		s.reopened++
		s.wantExcused("Close", s.db.Close())
		s.relieve()
		s.open()
		s.check(true, false)
		return
	}
	s.relieve()
	shale.ShippingOf(s.db).HoldLogs(0) // logs that are held may have filled the disk by now
	s.resume()
	s.check(false, false)
	if s.db.Err() == nil {
		s.wantExcused("Flush", s.db.Flush(context.Background()))
		if err := harness.AsFresh(s.db, filepath.Join(s.dir, "db"), s.opts, func() vfs.FS { return vfs.Default }); err != nil {
			s.t.Errorf("%s: %v", s, err)
		}
	}
}

// life opens the store with other options than before, for some rounds, and
// closes it.
func (s *crowdedStore) life(rounds int) {
	s.opts = harness.DrawOnDisk(s.r.Uint64(), s.r.Uint64N(4))
	s.opts.Compression = shale.NoCompression
	s.opts.Tuning.MaxOpenFiles = 16
	s.open()
	for range rounds {
		if s.round(); s.t.Failed() {
			s.t.FailNow()
		}
	}
	if err := s.db.Close(); err != nil {
		s.t.Fatalf("Close without need: %v", err)
	}
	s.open()
	s.check(false, false)
	harness.WantClose(s.t, s.db)
}
