package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// openLog opens the log store of dir "log" in fsys. The test closes its db, or loses it in a crash.
func openLog(t testing.TB, fsys vfs.FS) *LogStore {
	t.Helper()
	s, err := tryOpenLog(fsys)
	mustNil(t, err)
	return s
}

func tryOpenLog(fsys vfs.FS) (*LogStore, error) {
	o := LogStoreOptions()
	o.FS, o.MemtableSize = fsys, 16<<10 // so that entries reach tables
	o.OnEvent = func(shale.Event) {}
	db, err := shale.Open("log", o)
	if err != nil {
		return nil, err
	}
	return NewLogStore(db), nil
}

// entry returns an entry whose bytes depend on index and term.
func entry(index, term uint64) *raft.Log {
	l := &raft.Log{
		Index: index,
		Term:  term,
		Type:  raft.LogType(index % 6),
		Data:  bytes.Repeat([]byte{byte(index), byte(term)}, int(index*7%90)),
	}
	if index%3 == 0 {
		l.AppendedAt = time.Unix(1_700_000_000+int64(index), int64(term)).UTC()
	}
	if index%5 == 0 {
		l.Extensions = []byte{byte(term)}
	}
	return l
}

// entries returns the entries from one index to another, both included.
func entries(from, to, term uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, entry(i, term))
	}
	return logs
}

func mustStore(t testing.TB, s *LogStore, logs ...*raft.Log) {
	t.Helper()
	mustNil(t, s.StoreLogs(logs))
}

func mustDelete(t testing.TB, s *LogStore, first, last uint64) {
	t.Helper()
	mustNil(t, s.DeleteRange(first, last))
}

func mustCloseLog(t testing.TB, s *LogStore) {
	t.Helper()
	mustNil(t, s.db.Close())
}

// checkLog compares the whole log with want, and the entries around it.
func checkLog(s *LogStore, want []*raft.Log) error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	wantFirst, wantLast := uint64(0), uint64(0)
	if n := len(want); n > 0 {
		wantFirst, wantLast = want[0].Index, want[n-1].Index
	}
	if first != wantFirst || last != wantLast {
		return fmt.Errorf("FirstIndex, LastIndex = %d, %d, want %d, %d", first, last, wantFirst, wantLast)
	}
	for _, w := range want {
		got := raft.Log{Index: 99, Extensions: []byte("old")} // GetLog sets all fields
		if err := s.GetLog(w.Index, &got); err != nil {
			return err
		}
		if !reflect.DeepEqual(&got, w) {
			return fmt.Errorf("GetLog(%d) = %+v, want %+v", w.Index, got, *w)
		}
	}
	for _, i := range []uint64{0, 1, wantFirst - 1, wantLast + 1, wantLast + 2, math.MaxUint64} {
		if len(want) > 0 && wantFirst <= i && i <= wantLast {
			continue
		}
		if err := s.GetLog(i, new(raft.Log)); err != raft.ErrLogNotFound {
			return fmt.Errorf("GetLog(%d) = %v, want %v; the log is %d to %d", i, err, raft.ErrLogNotFound, wantFirst, wantLast)
		}
	}
	return nil
}

func mustHave(t testing.TB, s *LogStore, want ...*raft.Log) {
	t.Helper()
	mustNil(t, checkLog(s, want))
}

// reopened closes the store and opens it again.
func reopened(t testing.TB, s *LogStore, fsys vfs.FS) *LogStore {
	t.Helper()
	mustCloseLog(t, s)
	return openLog(t, fsys)
}

// TestLogStore_RefusesHoles makes the calls that would leave a hole, or could never be read again.
func TestLogStore_RefusesHoles(t *testing.T) {
	t.Parallel()
	s := openLog(t, vfs.NewMem())
	defer mustCloseLog(t, s)
	mustStore(t, s, entries(10, 20, 1)...)
	for _, c := range []struct {
		err  error
		want string
	}{
		{s.DeleteRange(12, 18), "would leave a hole in the log, which has [10, 21)"},
		{s.StoreLog(entry(9, 1)), "entry 9 is below the log, which has [10, 21)"},
		{s.StoreLogs(append(entries(21, 22, 1), entry(5, 1))), "entry 5 comes behind entry 22"},
		{s.StoreLog(&raft.Log{Index: math.MaxUint64}), "no entry of the log can have index"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error = %v, want one with %q", c.err, c.want)
		}
	}
	mustHave(t, s, entries(10, 20, 1)...)
}

// TestLogStore_TooLargeEntry stores an entry that has one byte too many.
func TestLogStore_TooLargeEntry(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes a quarter of a gigabyte")
	}
	s := openLog(t, vfs.NewMem())
	defer mustCloseLog(t, s)
	big := &raft.Log{Index: 2, Data: make([]byte, MaxEntrySize+1)}
	if err := s.StoreLogs([]*raft.Log{entry(1, 1), big}); !errors.Is(err, shale.ErrValueTooLarge) {
		t.Errorf("StoreLogs of %d bytes = %v, want ErrValueTooLarge", len(big.Data), err)
	}
	mustHave(t, s)
}

// TestLogStore_ForeignKeys opens stores that no LogStore has written.
func TestLogStore_ForeignKeys(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"Lx": "", "L": "", "F": "seven", "L12345678": ""} {
		s := openLog(t, vfs.NewMem())
		mustNil(t, s.db.Put([]byte(key), []byte(value)))
		last, err := s.LastIndex()
		if err == nil {
			err = s.GetLog(last, new(raft.Log))
		}
		if err == nil || !strings.HasPrefix(err.Error(), "cluster: ") {
			t.Errorf("a store with %q = %q: error = %v", key, value, err)
		}
		mustCloseLog(t, s)
	}
}

// TestLogStore_DeadEntriesGo truncates again and again, and counts what the store still has.
func TestLogStore_DeadEntriesGo(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	s := openLog(t, fsys)
	defer func() { mustCloseLog(t, s) }()
	s.limits.batchDelete = 7
	want := func(when string, want int) {
		t.Helper()
		n := 0
		for _, err := range indexes(s.db, shale.Prefix([]byte{entryPrefix})) {
			mustNil(t, err)
			n++
		}
		if n != want {
			t.Errorf("%s the store has %d entries, want %d", when, n, want)
		}
	}
	first, next := uint64(1), uint64(1)
	for range 20 {
		mustStore(t, s, entries(next, next+199, 1)...)
		next += 200
		mustDelete(t, s, first, next-51)
		first = next - 50
		want("after DeleteRange", 50)
		mustHave(t, s, entries(first, next-1, 1)...)
	}
	// The power was cut before the entries went.
	for i := range uint64(30) {
		mustNil(t, s.db.Put(appendEntryKey(nil, 100*i+1), nil))
	}
	s = reopened(t, s, fsys)
	mustHave(t, s, entries(first, next-1, 1)...)
	want("opened again", 80)
	mustDelete(t, s, first, first)
	want("after the next DeleteRange", 49)
	mustStore(t, s, entries(next+1000, next+1001, 1)...) // a gap
	mustDelete(t, s, next+1000, next+1000)
	want("behind a gap", 1)
	// All of the log goes, and the power is cut before the entries have gone. Then it begins again below.
	mustStore(t, s, entries(next+1002, next+1099, 1)...)
	mustNil(t, s.db.Put([]byte(firstKey), appendFirst(nil, next+1100)))
	s = reopened(t, s, fsys)
	mustHave(t, s)
	for range 2 {
		mustStore(t, s, entries(next+1050, next+1051, 2)...)
		want("when the log has begun again", 2)
		mustDelete(t, s, next+1050, next+1050)
		want("when its first entry has gone", 1)
		s = reopened(t, s, fsys)
		mustHave(t, s, entries(next+1051, next+1051, 2)...)
		mustDelete(t, s, 0, next+1051)
	}
}

// TestLogStore_Stable sets and gets values, with the errors that raft compares by their text.
func TestLogStore_Stable(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	s := openLog(t, fsys)
	defer func() { mustCloseLog(t, s) }()
	if v, err := s.Get([]byte("k")); err != ErrKeyNotFound || err.Error() != "not found" || v != nil {
		t.Errorf("Get of an absent key = %q, %v", v, err)
	}
	if n, err := s.GetUint64([]byte("k")); err != ErrKeyNotFound || n != 0 {
		t.Errorf("GetUint64 of an absent key = %d, %v", n, err)
	}
	for _, key := range []string{"k", "", "LastVoteTerm"} {
		mustNil(t, s.SetUint64([]byte(key), 1<<63+7))
	}
	mustNil(t, s.Set([]byte("cand"), []byte("n1")))
	mustStore(t, s, entry(1, 1))
	s = reopened(t, s, fsys)
	for _, key := range []string{"k", "", "LastVoteTerm"} {
		if n, err := s.GetUint64([]byte(key)); err != nil || n != 1<<63+7 {
			t.Errorf("GetUint64(%q) = %d, %v", key, n, err)
		}
	}
	if v, err := s.Get([]byte("k")); err != nil || !bytes.Equal(v, []byte{128, 0, 0, 0, 0, 0, 0, 7}) {
		t.Errorf("Get of a number = %v, %v, want it big-endian as raft-boltdb has it", v, err)
	}
	if _, err := s.GetUint64([]byte("cand")); err == nil || !strings.Contains(err.Error(), `"cand"`) {
		t.Errorf("GetUint64 of a string = %v", err)
	}
	mustHave(t, s, entry(1, 1)) // the two do not meet
}

// TestLogStore_Closed calls a log store whose store is closed.
func TestLogStore_Closed(t *testing.T) {
	t.Parallel()
	s := openLog(t, vfs.NewMem())
	mustCloseLog(t, s)
	_, first := s.FirstIndex()
	_, last := s.LastIndex()
	_, get := s.Get([]byte("k"))
	for i, err := range []error{first, last, get, s.GetLog(1, new(raft.Log)), s.StoreLog(entry(1, 1)), s.DeleteRange(1, 2),
		s.Set([]byte("k"), nil)} {
		if !errors.Is(err, shale.ErrClosed) {
			t.Errorf("call %d = %v, want ErrClosed", i, err)
		}
	}
}

// TestLogStore_Concurrent has readers look at a log that grows at one end and is truncated at the other.
func TestLogStore_Concurrent(t *testing.T) {
	t.Parallel()
	s := openLog(t, vfs.NewMem())
	defer mustCloseLog(t, s)
	s.limits.batchDelete = 7
	mustStore(t, s, entry(1, 1))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				first, err1 := s.FirstIndex()
				last, err2 := s.LastIndex()
				if err := errors.Join(err1, err2); err != nil || first == 0 || last < first {
					t.Errorf("FirstIndex, LastIndex = %d, %d, %v", first, last, err)
					return
				}
				var l raft.Log
				i := first + rand.Uint64N(last-first+1)
				if err := s.GetLog(i, &l); err == raft.ErrLogNotFound {
					if now, _ := s.FirstIndex(); now <= i {
						t.Errorf("GetLog(%d) = %v, and the log begins at %d", i, err, now)
						return
					}
				} else if err != nil || !reflect.DeepEqual(&l, entry(i, 1)) {
					t.Errorf("GetLog(%d) = %+v, %v", i, l, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			last, _ := s.LastIndex()
			if last > 30 {
				if err := s.DeleteRange(1, last-30); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := uint64(2); i < 3000; i += 3 {
		mustStore(t, s, entries(i, i+2, 1)...)
	}
	close(done)
	wg.Wait()
}

// A logModel is what a log should hold.
type logModel []*raft.Log

func (m logModel) last() uint64 {
	if len(m) == 0 {
		return 0
	}
	return m[len(m)-1].Index
}

// next returns a random call, and the log after it.
func (m logModel) next(rnd *rand.Rand, term uint64) (call func(*LogStore) error, after logModel, name string) {
	store := func(from uint64, kept logModel) (func(*LogStore) error, logModel, string) {
		logs := entries(from, from+rnd.Uint64N(12), term)
		return func(s *LogStore) error { return s.StoreLogs(logs) }, append(kept[:len(kept):len(kept)], logs...),
			fmt.Sprintf("StoreLogs(%d to %d, term %d)", from, logs[len(logs)-1].Index, term)
	}
	remove := func(first, last uint64, after logModel) (func(*LogStore) error, logModel, string) {
		return func(s *LogStore) error { return s.DeleteRange(first, last) }, after, fmt.Sprintf("DeleteRange(%d, %d)", first, last)
	}
	n := uint64(len(m))
	switch k := rnd.IntN(15); {
	case n == 0 && k == 0: // an empty log may go on anywhere
		return store(rnd.Uint64N(300), nil)
	case n == 0:
		return store(m.last()+1+rnd.Uint64N(50), nil)
	case k < 6:
		return store(m.last()+1, m)
	case k < 9:
		drop := 1 + rnd.Uint64N(n)
		return remove(m[0].Index, m[drop-1].Index, m[drop:])
	case k < 10:
		keep := n - 1 - rnd.Uint64N(min(n, 10))
		return remove(m[keep].Index, m.last(), m[:keep])
	case k < 11:
		return store(m.last()+2+rnd.Uint64N(60), nil) // a gap
	case k < 12: // a gap within a call
		logs := append(entries(m.last()+1, m.last()+3, term), entries(m.last()+9, m.last()+12, term)...)
		return func(s *LogStore) error { return s.StoreLogs(logs) }, logs[3:], "StoreLogs with a gap"
	case k < 13: // an entry is replaced, and those behind it stay
		i := rnd.Uint64N(n)
		l := entry(m[i].Index, term)
		return func(s *LogStore) error { return s.StoreLog(l) }, slices.Concat(m[:i], logModel{l}, m[i+1:]), fmt.Sprintf("StoreLog(%d, term %d) again", l.Index, term)
	case k < 14: // nothing of it is in the log
		return func(s *LogStore) error {
			return errors.Join(s.StoreLogs(nil), s.DeleteRange(m.last()+1, m.last()+9), s.DeleteRange(m.last(), m[0].Index-1))
		}, m, "nothing"
	default:
		return remove(0, math.MaxUint64, nil)
	}
}

// TestLogStore_Model compares random lives with a slice, with reopens in between.
func TestLogStore_Model(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t)
	for life := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, life))
		fsys := vfs.NewMem()
		s := openLog(t, fsys)
		var m logModel
		limits := defaultLogLimits
		if life%2 == 0 {
			limits = logLimits{batchBytes: 300, batchDelete: 4}
		}
		s.limits = limits
		for step := range uint64(120) {
			call, after, name := m.next(rnd, step)
			if err := call(s); err != nil {
				t.Fatalf("life %d, step %d: %s: %v", life, step, name, err)
			}
			m = after
			if rnd.IntN(10) == 0 {
				s = reopened(t, s, fsys)
				s.limits = limits
			}
			if err := checkLog(s, m); err != nil {
				t.Fatalf("life %d, step %d, after %s: %v", life, step, name, err)
			}
		}
		mustCloseLog(t, s)
	}
}
