package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A site is what a server sees of a site on the web: sessions that end when they were not used for 30 minutes, some that are
// remembered for a month, counters of a minute, and a filter for each hour.
type site struct {
	*client
	rand   *rand.Rand
	active []session
	made   int
}

// A session has its name, and when it ends if nobody uses it.
type session struct {
	name string
	ends time.Time
}

const (
	idle       = 30 * time.Minute
	remembered = 30 * 24 * time.Hour
)

// must does a command that has to succeed.
func (s *site) must(t *testing.T, args ...string) string {
	t.Helper()
	reply := s.say(args...)
	if reply[0] == '-' {
		t.Fatalf("%q: %q", args, reply)
	}
	return reply
}

// minute is a minute of traffic, which takes one.
func (s *site) minute(t *testing.T, n int) {
	t.Helper()
	for range 60 {
		time.Sleep(time.Second)
		s.made++
		name, end := "session:"+strconv.FormatUint(s.rand.Uint64(), 36), idle
		if s.made%2 == 0 {
			end = remembered
		} else {
			s.active = append(s.active, session{name, time.Now().Add(idle)})
		}
		s.must(t, "SET", name, s.text(200), "PX", strconv.FormatInt(end.Milliseconds(), 10))
	}
	for i := 0; i < len(s.active); i++ {
		one := &s.active[i]
		switch {
		case s.rand.IntN(10) != 0:
			continue // it is not used in this minute
		case s.rand.IntN(8) == 0:
			s.must(t, "DEL", one.name)
		default:
			lives := time.Now().Before(one.ends)
			if got := s.must(t, "GETEX", one.name, "PX", strconv.FormatInt(idle.Milliseconds(), 10)); (got[:4] == "$200") != lives {
				t.Fatalf("a session that ends at %v: %q at %v", one.ends, got, time.Now())
			}
			if lives {
				one.ends = time.Now().Add(idle)
				continue
			}
		}
		last := len(s.active) - 1
		s.active[i] = s.active[last]
		s.active = s.active[:last]
	}
	for i := range 20 {
		name := fmt.Sprintf("requests:%d", i)
		s.must(t, "INCR", name)
		s.must(t, "EXPIRE", name, "60", "NX")
	}
	hour := fmt.Sprintf("seen:%d", n/60)
	if n%60 == 0 {
		s.must(t, "BF.RESERVE", hour, "0.01", "10000")
		s.must(t, "EXPIRE", hour, "7200")
	}
	for _, filter := range []string{hour, "seen"} {
		args := []string{"BF.MADD", filter}
		for range 50 {
			args = append(args, s.text(20))
		}
		s.must(t, args...)
	}
}

// text returns letters that can't be compressed much.
func (s *site) text(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(' ' + s.rand.IntN(95))
	}
	return string(text)
}

// After a day of sessions that end and are renewed, counters and filters, the store has no more room than the living need, and
// after their end none. With SHALE_LONG the day has 24 hours, else 3.
func TestDay_SpaceOfTheLiving(t *testing.T) {
	hours := 3
	if os.Getenv("SHALE_LONG") != "" {
		hours = 24
	}
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		o := &shale.Options{FS: fs, Durability: shale.SyncManual, MemtableSize: 64 << 10, TableSize: 64 << 10}
		db, err := shale.Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		server := newServer(&fake{Store: Alone(db, nil), db: db})
		ctx, stop := context.WithCancel(t.Context())
		swept := make(chan struct{})
		go func() { server.sweepAlways(ctx); close(swept) }()
		s := &site{client: server.newClient(), rand: rand.New(rand.NewPCG(1, 2))}
		s.must(t, "BF.RESERVE", "seen", "0.01", "200000")
		flush := func() {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		begin, most := time.Now(), int64(0)
		for n := range hours * 60 {
			s.minute(t, n)
			most = max(most, roomOf(t, fs))
		}
		traffic := db.Metrics()
		time.Sleep(150 * time.Minute) // the last filter ends after 120, and a sweep finds that
		synctest.Wait()
		flush()
		room, living := roomOf(t, fs), livingRoom(t, db, o)
		t.Logf("%v, %d sessions: %d bytes written, at most %d on disk, %d at the end, and %d for the living",
			time.Since(begin), s.made, traffic.FlushBytes, most, room, living)
		if room > living*11/10+4*o.MemtableSize { // so much level 0 may have
			t.Errorf("%d bytes on disk, and the living have %d", room, living)
		}
		s.must(t, "DEL", "seen")
		time.Sleep(remembered)
		flush()                                 // what a sweep has done to the filter
		if rest := roomOf(t, fs); rest > 4096 { // there is the mark of the layout
			t.Errorf("%d bytes on disk, and nothing lives", rest)
		}
		if reply := s.say("DBSIZE"); reply != ":0\r\n" {
			t.Errorf("DBSIZE: %q", reply)
		}
		stop()
		<-swept
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// roomOf returns how many bytes the tables of a store have on disk. Its logs have as much as two memtables, whatever there is.
func roomOf(t *testing.T, fs vfs.FS) (bytes int64) {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		f, err := fs.Open("db/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a compaction has removed it
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := f.Size()
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	return bytes
}

// livingRoom returns how many bytes a new store has that holds what db shows.
func livingRoom(t *testing.T, db *shale.DB, o *shale.Options) int64 {
	t.Helper()
	other := *o
	other.FS = vfs.NewMem()
	copied, err := shale.Open("db", &other)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	for e, err := range db.Scan(shale.Range{}) {
		if err == nil {
			err = shale.Op{Kind: shale.OpPut, Key: e.Key, Value: e.Value, ExpiresAt: e.ExpiresAt}.Apply(copied)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := copied.Compact(t.Context(), shale.Range{}); err != nil {
		t.Fatal(err)
	}
	return roomOf(t, other.FS)
}
