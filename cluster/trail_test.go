package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// newTestTrail returns the log that raft sees, with entries 1 to 1000 of 10 KiB, and what its trail has logged.
func newTestTrail(t *testing.T, change func(*Options, *raft.Config)) (raftLog, *strings.Builder) {
	t.Helper()
	o := LogStoreOptions()
	o.FS = vfs.NewMem()
	db, err := shale.Open("log", o)
	mustNil(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	logged := new(strings.Builder)
	opts := (&Options{LogSize: 4 << 20, LogSizeBehind: 6 << 20}).withDefaults()
	config := &raft.Config{TrailingLogs: 50, Logger: hclog.New(&hclog.LoggerOptions{Output: logged})}
	if change != nil {
		change(opts, config)
	}
	s := NewLogStore(db)
	for first := uint64(1); first <= 1000; first += 50 {
		mustNil(t, s.StoreLogs(largeEntries(first, first+49)))
	}
	return raftLog{s, newTrail(s, opts, config), nil}, logged
}

func largeEntries(first, last uint64) (logs []*raft.Log) {
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: make([]byte, 10<<10)})
	}
	return logs
}

// TestTrail_Keeps cuts a log in which raft needs nothing up to entry 900.
func TestTrail_Keeps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Options, *raft.Config)
		before func(raftLog)
		first  uint64 // the first index afterwards
		about  uint64 // by how much the first index may be higher
		logged string
	}{
		{"raft's number of entries", func(o *Options, c *raft.Config) { c.TrailingLogs, o.LogSize = 300, 16<<20 }, nil, 701, 0, ""},
		{"not beyond the snapshot", nil, nil, 901, 0, ""},
		{"a quarter of LogSize", func(_ *Options, c *raft.Config) { c.TrailingLogs = 600 }, nil, 897, 8, ""},
		{"a snapshot is sent", nil, func(l raftLog) { _ = l.trail.hold("m", 600) }, 601, 0, ""},
		{"the receiver follows", nil, func(l raftLog) {
			_ = l.trail.hold("m", 600)
			_ = l.trail.acked("m", 700)
			_ = l.trail.acked("m", 650) // an answer that was late
			_ = l.trail.acked("other", 100)
		}, 701, 0, ""},
		{"two members", nil, func(l raftLog) {
			_ = l.trail.hold("m", 600)
			_ = l.trail.hold("n", 500)
			_ = l.trail.acked("m", 1000)
		}, 501, 0, ""},
		{"too much for it", nil, func(l raftLog) { _ = l.trail.hold("m", 300) }, 901, 0, "not kept for a member that is behind any more"},
		{"it makes no progress", nil, func(l raftLog) {
			_ = l.trail.hold("m", 600)
			l.trail.holds["m"].seen = time.Now().Add(-holdPatience - time.Second)
		}, 901, 0, ""},
	} {
		l, logged := newTestTrail(t, c.change)
		if c.before != nil {
			c.before(l)
		}
		mustNil(t, l.DeleteRange(1, 900))
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		if first < c.first || first > c.first+c.about || last != 1000 || !strings.Contains(logged.String(), c.logged) || (c.logged == "") != (logged.Len() == 0) {
			t.Errorf("%s: the log has %d to %d, want it from %d; logged %q", c.name, first, last, c.first, logged)
		}
	}
}

// TestTrail_Outrun ends a transfer whose log was cut off.
func TestTrail_Outrun(t *testing.T) {
	t.Parallel()
	l, _ := newTestTrail(t, nil)
	mustNil(t, errors.Join(l.trail.hold("m", 300), l.trail.acked("m", 0)))
	mustNil(t, l.DeleteRange(1, 900))
	if err := l.trail.acked("m", 0); !errors.Is(err, errOutrun) {
		t.Errorf("a transfer goes on behind a log that was cut: %v", err)
	}
	if err := l.trail.hold("m", 899); !errors.Is(err, errOutrun) {
		t.Errorf("a transfer begins behind a log that was cut: %v", err)
	}
	if err := l.trail.hold("m", 900); err != nil {
		t.Error(err)
	}
}

// TestTrail_OtherDeletions passes on what raft deletes for other reasons than a snapshot: all of the log, and its end.
func TestTrail_OtherDeletions(t *testing.T) {
	t.Parallel()
	l, _ := newTestTrail(t, nil)
	mustNil(t, errors.Join(l.trail.hold("m", 100), l.DeleteRange(950, 1000)))
	if last, _ := l.LastIndex(); last != 949 {
		t.Errorf("the log ends at %d", last)
	}
	mustNil(t, l.DeleteRange(1, 949))
	if last, _ := l.LastIndex(); last != 0 {
		t.Errorf("the log ends at %d", last)
	}
}

func bytesOf(s *LogStore) int64 {
	n, _ := s.stored()
	return n
}

// TestTrail_Room deletes most of a log that lies in tables. Without another write its room is taken back.
func TestTrail_Room(t *testing.T) {
	t.Parallel()
	for _, reopened := range []bool{false, true} {
		l, _ := newTestTrail(t, nil)
		s := l.trail.log
		mustNil(t, s.db.Flush(t.Context()))
		if reopened {
			l.trail.log = NewLogStore(s.db)
			l.LogStore, s = l.trail.log, l.trail.log
		}
		before := bytesOf(s)
		mustNil(t, l.DeleteRange(1, 990))
		select {
		case <-l.trail.reclaim:
		default:
			t.Fatal("nobody asks for the room")
		}
		mustNil(t, s.reclaim(t.Context()))
		if now := bytesOf(s); before < 9<<20 || now > 2<<20 {
			t.Errorf("reopened %v: %d bytes of %d are left for 50 entries of 10 KiB", reopened, now, before)
		}
		if err := checkLog(s, largeEntries(951, 1000)); err != nil {
			t.Error(err)
		}
	}
}

// TestTrail_LimitsDisk writes large values to a member that raft would let keep all of them. The log stays small, also when
// nobody writes any more.
func TestTrail_LimitsDisk(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1, func(o *Options) {
		o.LogSize = 1 << 20
		o.Raft = func(c *raft.Config) { fastRaft(c); c.SnapshotInterval = time.Hour }
	})
	m := g.members[0]
	value := string(make([]byte, 256<<10))
	for i := range 40 {
		g.write(fmt.Sprint(i%5), value)
	}
	g.eventually("the log gets small", func() error {
		first, _ := m.log.FirstIndex()
		if bytes, _ := m.log.stored(); m.snapshots.newest() == nil || first == 0 || bytes > 2<<20 {
			return fmt.Errorf("it has %d bytes from entry %d, of %d", bytes, first, m.Stats().Last)
		}
		return nil
	})
	if v, err := m.get(short(t), "4"); v != value || err != nil {
		t.Errorf("a value of %d bytes is left, %v", len(v), err)
	}
}
