package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// An evictedLife is a random life of a store whose budget changes with each Open, and whose copies somebody removes.
type evictedLife struct {
	*testWriter
	iters []heldIter
}

// A heldIter is an iterator, and what it must show.
type heldIter struct {
	*shale.Iterator
	want map[string][]byte
}

const leastBudget = 8 * 16 << 10 // eight memtables

// lifeBudgets are the budgets of lives: none, the least, some tables, and more than there ever is.
var lifeBudgets = []int64{0, leastBudget, 2 * leastBudget, 1 << 20, 1 << 40}

// reopen closes the store, and opens it with another budget. Sometimes copies are gone by then.
func (l *evictedLife) reopen() {
	l.t.Helper()
	l.closeIters()
	mustNil(l.t, l.s.Close())
	switch l.random.IntN(3) {
	case 0:
		removeFiles(l.t, l.o.Store.FS, filepath.Join("db", copiesDir), func() bool { return true })
	case 1:
		removeFiles(l.t, l.o.Store.FS, filepath.Join("db", copiesDir), func() bool { return l.random.IntN(2) == 0 })
	}
	l.o.LocalBytes = lifeBudgets[l.random.IntN(len(lifeBudgets))]
	l.open()
}

// removeFiles removes those files below a directory for which chance says so.
func removeFiles(t testing.TB, fsys vfs.FS, dir string, chance func() bool) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		return // a file, or not there
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		removeFiles(t, fsys, path, chance)
		if chance() {
			_ = fsys.Remove(path) // a directory that has files stays
		}
	}
}

// expire writes values that are over at once, so that compactions drop them and what they hide.
func (l *evictedLife) expire() {
	l.t.Helper()
	from := l.random.IntN(200)
	for k := from; k < from+100; k++ {
		key := fmt.Sprintf("key%03d", k)
		mustNil(l.t, l.db.PutTTL([]byte(key), []byte("soon over"), time.Millisecond))
		l.commits = append(l.commits, testCommit{l.lastSeq(), map[string][]byte{key: nil}})
	}
	time.Sleep(3 * time.Millisecond)
}

// lastSeq returns the number of the last write.
func (l *evictedLife) lastSeq() uint64 { return shale.ShippingOf(l.db).Position().LastSeq }

// hold begins an iterator.
func (l *evictedLife) hold() {
	l.iters = append(l.iters, heldIter{l.db.NewIterator(shale.Range{}), l.modelAt(l.lastSeq())})
}

// closeIters checks what the iterators show, and closes them.
func (l *evictedLife) closeIters() {
	l.t.Helper()
	for _, it := range l.iters {
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			if want, there := it.want[string(it.Key())]; !there || string(want) != string(it.Value()) {
				l.t.Fatalf("an iterator has %s = %.10q, want %.10q", it.Key(), it.Value(), want)
			}
			n++
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil || n != len(it.want) {
			l.t.Fatalf("an iterator shows %d keys, want %d; %v", n, len(it.want), err)
		}
	}
	l.iters = nil
}

// step does something by chance.
func (l *evictedLife) step() {
	l.t.Helper()
	ctx := l.t.Context()
	switch l.random.IntN(14) {
	case 0, 1, 2:
		l.commit(l.randomChanges())
	case 3, 4:
		l.bulk()
	case 5:
		l.deleteRange()
	case 6:
		l.ingest()
	case 7:
		l.expire()
	case 8:
		mustNil(l.t, errors.Join(l.db.Flush(ctx), l.db.Compact(ctx, shale.Range{})))
	case 9:
		l.publish()
	case 10:
		l.publish()
		l.collect()
	case 11:
		if len(l.iters) < 3 {
			l.hold()
		}
	case 12:
		l.closeIters()
	case 13:
		l.reopen()
	}
}

// settled waits until the budget is kept, as far as it can be, and checks that nothing is on the disk that should not be.
func (l *evictedLife) settled() {
	l.t.Helper()
	l.closeIters()
	mustNil(l.t, l.db.Flush(l.t.Context()))
	l.publish()
	if l.o.LocalBytes == 0 {
		return
	}
	// Each tail is in a file with a head. What the store does not need any more is removed in the background.
	testenv.WaitFor(l.t, "the budget to be kept", func() bool {
		e := l.s.evicting
		limit := room{limit: e.limit, copies: e.tables.CopyBytes()}
		return localBytes(l.t, l.o.Store.FS, "db") <= limit.copies+limit.most()+64<<10
	})
}

// Stores whose budgets change and whose copies are lost have what a model has, and so do their iterators, restores and
// buckets after collections.
func TestEvict_Lives(t *testing.T) {
	seed := testenv.Seed(t)
	for life := range lives(t, 12) {
		b, o := remotetest.NewFake(NewMem()), manual(vfs.NewMem())
		o.Retain = 1
		o.Store.MemtableSize, o.Store.TableSize, o.Store.CompactionWorkers, o.Store.CacheSize = 16<<10, 16<<10, 0, 64<<10
		random := rand.New(rand.NewPCG(seed, life))
		o.LocalBytes = lifeBudgets[random.IntN(len(lifeBudgets))]
		l := &evictedLife{testWriter: &testWriter{t: t, b: b, o: o, random: random}}
		l.open()
		for i := range 60 {
			l.step()
			if i%10 == 9 {
				l.check(l.db, l.lastSeq())
			}
			if i%20 == 19 {
				l.settled()
			}
		}
		l.settled()
		l.collect()
		want := make(map[string]string)
		for key, value := range l.modelAt(l.lastSeq()) {
			want[key] = string(value)
		}
		sameMap(t, fmt.Sprintf("life %d of seed %d", life, seed), contents(t, l.db), want)
		sameMap(t, fmt.Sprintf("life %d of seed %d, restored", life, seed), restoredContents(t, b.Bucket), want)
		mustNil(t, l.s.Close())
	}
}
