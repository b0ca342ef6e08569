package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/localdir"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/remote/internal/restore"
	"github.com/shaledb/shale/vfs"
)

// manyTables makes a store of at least n small tables in the directory db, and returns its contents.
func manyTables(t *testing.T, fsys vfs.FS, n int) map[string]string {
	t.Helper()
	model := map[string]string{}
	db, err := shale.Open("db", &shale.Options{FS: fsys, CompactionWorkers: -1, TableSize: 4 << 10, OnEvent: func(shale.Event) {}})
	mustNil(t, err)
	value := strings.Repeat("v", 1000)
	mustNil(t, db.Ingest(t.Context(), func(yield func(k, v []byte) bool) {
		for i := range 8 * n {
			key := fmt.Sprintf("key%06d", i)
			model[key] = fmt.Sprint(i, value)
			if !yield([]byte(key), []byte(model[key])) {
				return
			}
		}
	}))
	mustNil(t, db.Close())
	return model
}

// A counter counts how often each object of a folder arrives.
type counter struct {
	mu    sync.Mutex
	times map[string]int
	total int
}

func (c *counter) count(call, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call == "put" && strings.HasPrefix(name, "t/") {
		c.times[name]++
		c.total++
	}
}

// TestUpload_Restarts kills the program in the middle of its first upload, again and again: no table is sent more often
// than twice, and the upload ends. Half of the deaths let a PUT arrive whose answer nobody gets.
func TestUpload_Restarts(t *testing.T) {
	testenv.CheckLeaks(t)
	restarts, tables := 200, 1000
	switch {
	case testenv.Long(t) > 0:
		restarts, tables = 1000, 10000
	case testing.Short():
		restarts, tables = 40, 200
	}
	mem, bucket := vfs.NewMem(), remotetest.NewFake(NewMem())
	model := manyTables(t, mem, tables)
	sent := counter{times: map[string]int{}}
	dead := errors.New("the program has ended")
	requests, by := 0, map[string]int{} // of the last Open, and by call and folder
	for life := range restarts {
		before, left := bucket.Count("", ""), tables/restarts-2+life%3
		clear(by)
		var mu sync.Mutex
		bucket.Hook(func(call, name string) error {
			mu.Lock()
			defer mu.Unlock()
			folder, _, _ := strings.Cut(name, "/")
			by[call+" "+folder]++
			return nil
		}, nil)
		o := manual(mem)
		o.Uploads = 2
		s, err := Open(t.Context(), "db", bucket, o)
		if err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		requests = bucket.Count("", "") - before
		bucket.Hook(func(call, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if call != "put" {
				return nil
			}
			if left--; left < 0 && life%2 == 0 {
				return remotetest.Refusal{Err: dead}
			}
			sent.count(call, name)
			return nil
		}, func(call, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if call == "put" && left < 0 {
				return remotetest.Refusal{Err: dead}
			}
			return nil
		})
		put(t, s, model, fmt.Sprintf("life%04d", life), 1)
		mustNil(t, s.DB().Sync())
		if err := s.Publish(t.Context()); err == nil {
			t.Fatalf("life %d: everything is there already", life)
		}
		mem = copyOf(mem)
		_ = s.Close()
	}
	bucket.Hook(func(call, name string) error { sent.count(call, name); return nil }, nil)
	s, err := Open(t.Context(), "db", bucket, manual(mem))
	mustNil(t, err)
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())
	for name, n := range sent.times {
		if n > 2 {
			t.Errorf("%s was sent %d times", name, n)
		}
	}
	if sent.total > len(sent.times)+restarts*2 {
		t.Errorf("%d tables were sent %d times", len(sent.times), sent.total)
	}
	// A step with the extents of thousands of logs is read in two parts, with a question about its size between them.
	if steps, all := by["read m"]-by["stat m"], by["read m"]+by["stat m"]; steps > restore.StateEvery || requests-all > 60 {
		t.Errorf("the last Open took %d requests, %d of them for %d steps", requests, all, steps)
	}
	if len(sent.times) < tables {
		t.Errorf("the store has only %d tables", len(sent.times))
	}
	t.Logf("%d tables, %d PUTs of them, %d restarts, the last Open took %d requests: %v",
		len(sent.times), sent.total, restarts, requests, by)
	sameMap(t, "restored", restoredContents(t, bucket), model)
}

// TestUpload_OtherTable opens a directory whose table is not the one of the same number that was uploaded: it is a copy that
// another program went on with, and its tables have the same lengths. It is put again.
func TestUpload_OtherTable(t *testing.T) {
	mem, bucket := vfs.NewMem(), remotetest.NewFake(NewMem())
	s := openStore(t, "db", bucket, manual(mem))
	mustNil(t, s.Close())
	write := func(fsys vfs.FS, value string) {
		db, err := shale.Open("db", &shale.Options{FS: fsys, CompactionWorkers: -1, OnEvent: func(shale.Event) {}})
		mustNil(t, err)
		mustNil(t, db.Put([]byte("key"), []byte(value)))
		mustNil(t, db.Flush(t.Context()))
		mustNil(t, db.Close())
	}
	other := copyOf(mem)
	write(mem, "one")
	write(other, "two")
	// The step with the first table does not arrive.
	bucket.Hook(func(call, name string) error {
		if call == "put" && strings.HasPrefix(name, object.StepFolder) {
			if _, err := bucket.Bucket.Stat(context.Background(), name); err != nil && len(remotetest.NamesOf(t, bucket.Bucket, "t/")) > 0 {
				return remotetest.Refusal{Err: errors.New("the program has ended")}
			}
		}
		return nil
	}, nil)
	s, err := Open(t.Context(), "db", bucket, manual(mem))
	mustNil(t, err)
	if err := s.Publish(t.Context()); err == nil {
		t.Fatal("the step has arrived")
	}
	claimed := copyOf(mem)
	_ = s.Close()
	bucket.Hook(nil, nil)
	was := remotetest.NamesOf(t, bucket, "t/")
	// The other directory takes the notes of the one that has claimed the store.
	notes, err := localdir.ReadRecord(claimed, "db")
	mustNil(t, err)
	mustNil(t, localdir.WriteRecord(other, "db", notes))
	s, err = Open(t.Context(), "db", bucket, manual(other))
	mustNil(t, err)
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())
	if now := remotetest.NamesOf(t, bucket, "t/"); len(was) == 0 || was[0] != now[0] {
		t.Fatalf("tables %q, then %q: the test does not meet the same number", was, now)
	}
	sameMap(t, "restored", restoredContents(t, bucket), map[string]string{"key": "two"})
}

// TestUpload_OthersArrive lets one PUT of four fail while the others are on their way: these arrive, and are not sent again.
func TestUpload_OthersArrive(t *testing.T) {
	testenv.CheckLeaks(t)
	synctest.Test(t, othersArrive)
}

func othersArrive(t *testing.T) {
	mem, bucket := vfs.NewMem(), remotetest.NewFake(NewMem())
	model := manyTables(t, mem, 20)
	s := openStore(t, "db", bucket, manual(mem))
	sent := counter{times: map[string]int{}}
	waiting, failed := make(chan struct{}, 3), make(chan struct{})
	var begun atomic.Bool
	bucket.Hook(func(call, name string) error {
		if call != "put" || !strings.HasPrefix(name, "t/") {
			return nil
		}
		sent.count(call, name)
		if begun.CompareAndSwap(false, true) {
			for range 3 {
				<-waiting
			}
			time.AfterFunc(time.Millisecond, func() { close(failed) }) // when all wait: the error has come back by then
			return remotetest.Refusal{Err: errors.New("no")}
		}
		select {
		case waiting <- struct{}{}:
		default:
		}
		<-failed
		return nil
	}, nil)
	if err := s.Publish(t.Context()); err == nil {
		t.Fatal("Publish has succeeded")
	}
	if n := len(remotetest.NamesOf(t, bucket, "t/")); n != 3 {
		t.Errorf("%d tables have arrived, want 3", n)
	}
	mustNil(t, s.Publish(t.Context()))
	if sent.total != len(sent.times)+1 {
		t.Errorf("%d tables were sent %d times, want once but for the one that has failed", len(sent.times), sent.total)
	}
	sameMap(t, "restored", restoredContents(t, bucket), model)
}
