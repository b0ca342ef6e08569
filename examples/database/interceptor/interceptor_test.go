package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// The filter keeps nearly all requests in vain from the database, and changes no answer: run
// checks each of them.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), t.TempDir(), 4000, 2000, &out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	var absent, vain int
	if _, err := fmt.Sscanf(out.String(), "%d of 4000 requests were for users who do not exist. %d of", &absent, &vain); err != nil {
		t.Fatal(err)
	}
	if absent < 3400 || absent > 3800 || vain < 0 || vain > absent/30 {
		t.Errorf("%d queries in vain of %d", vain, absent)
	}
}

// While users are added and the filter is reloaded again and again, each client finds the
// users that it has added, and no others.
func TestHandler_ReloadsUnderLoad(t *testing.T) {
	u, err := newUsers(t.Context(), filepath.Join(t.TempDir(), "users.sqlite"), 2000)
	if err != nil {
		t.Fatal(err)
	}
	defer u.db.Close()
	ids, err := NewIDs(t.Context(), u.each)
	if err != nil {
		t.Fatal(err)
	}
	handler := newHandler(u, ids)
	want := func(status int, method, path string) {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(method, path, nil)); w.Code != status {
			t.Errorf("%s %s: status %d %s; want %d", method, path, w.Code, w.Body, status)
		}
	}
	each := 60
	if testing.Short() || testenv.Race {
		each = 20
	}
	var clients, reloads sync.WaitGroup
	stop := make(chan struct{})
	reloads.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := ids.Reload(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for client := range 3 {
		clients.Go(func() {
			for i := range each {
				path := fmt.Sprintf("/users/new-%d-%d", client, i)
				want(404, "GET", path)
				want(200, "PUT", path+"?profile=x")
				want(200, "GET", path)
			}
		})
	}
	clients.Wait()
	close(stop)
	reloads.Wait()
	for client := range 3 {
		for i := range each {
			want(200, "GET", fmt.Sprintf("/users/new-%d-%d", client, i))
		}
	}
}

// A table is one in memory. It can be made to wait and to fail.
type table struct {
	mu   sync.Mutex
	rows []string

	read func() // called after each has read the rows; nil: not
	err  error
}

func (tb *table) each(_ context.Context, fn func(id string) error) error {
	tb.mu.Lock()
	rows := slices.Clone(tb.rows)
	tb.mu.Unlock()
	if tb.read != nil {
		tb.read()
	}
	for _, id := range rows {
		if err := fn(id); err != nil {
			return err
		}
	}
	return tb.err
}

func (tb *table) commit(id string) func() error {
	return func() error {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.rows = append(tb.rows, id)
		return nil
	}
}

func newTable(t *testing.T) (*table, *IDs) {
	t.Helper()
	tb := &table{rows: []string{"ann", "bob"}}
	ids, err := NewIDs(t.Context(), tb.each)
	if err != nil {
		t.Fatal(err)
	}
	return tb, ids
}

// The filter has an id before its row is committed, and keeps it if that fails.
func TestInsert_FilterFirst(t *testing.T) {
	_, ids := newTable(t)
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		id := fmt.Sprint("new", want)
		err := ids.Insert(id, func() error {
			if !ids.MayContain(id) {
				t.Error("the row is committed before the filter has the id")
			}
			return want
		})
		if !errors.Is(err, want) || !ids.MayContain(id) {
			t.Errorf("Insert = %v, want %v", err, want)
		}
	}
}

// A reload that begins while a row is being committed has the row's id.
func TestReload_DuringCommit(t *testing.T) {
	tb, ids := newTable(t)
	reads := make(chan struct{}, 2)
	tb.read = func() { reads <- struct{}{} }
	reloaded := make(chan error, 1)
	err := ids.Insert("eve", func() error {
		go func() { reloaded <- ids.Reload(t.Context()) }()
		<-reads // they are counted
		select {
		case <-reads: // the row is not there yet
		case <-time.After(100 * time.Millisecond):
		}
		return tb.commit("eve")()
	})
	if err := errors.Join(err, <-reloaded); err != nil {
		t.Fatal(err)
	}
	if !ids.MayContain("eve") || !ids.MayContain("ann") {
		t.Error("the new filter denies an id of the table")
	}
}

// A row that is committed after a reload has read the table is in the new filter.
func TestReload_CommitAfterReading(t *testing.T) {
	tb, ids := newTable(t)
	reads := 0
	tb.read = func() {
		reads++
		if err := ids.Insert(fmt.Sprint("eve", reads), tb.commit(fmt.Sprint("eve", reads))); err != nil {
			t.Error(err)
		}
	}
	if err := ids.Reload(t.Context()); err != nil || reads != 2 {
		t.Fatal(err, reads)
	}
	if !ids.MayContain("eve1") || !ids.MayContain("eve2") {
		t.Error("the new filter denies a committed id")
	}
}

// After a reload that fails, the old filter goes on, and the next reload works.
func TestReload_Fails(t *testing.T) {
	tb, ids := newTable(t)
	for failed := range 2 {
		broken, reads := errors.New("broken"), 0
		tb.read = func() {
			if reads++; reads > failed {
				tb.err = broken
			}
		}
		if err := ids.Reload(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Reload = %v", err)
		}
		tb.read, tb.err = nil, nil
		if err := ids.Insert("eve", tb.commit("eve")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if !ids.MayContain("ann") || !ids.MayContain("eve") {
				t.Error("an id is denied")
			}
			if err := ids.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
