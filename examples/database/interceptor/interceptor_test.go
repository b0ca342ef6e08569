package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/testenv"
)

// Only requests for ids that the set may have, and those without an id, reach the next handler.
func TestMiddleware(t *testing.T) {
	set := bloom.New(100, 1e-9)
	if err := set.AddString("ann"); err != nil {
		t.Fatal(err)
	}
	var reached []string
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.URL.Path) })
	m := Middleware(set, func(r *http.Request) (string, bool) { return strings.CutPrefix(r.URL.Path, "/users/") }, next)
	for path, want := range map[string]int{"/users/ann": 200, "/users/bob": 404, "/users/": 404, "/about": 200} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if slices.Sort(reached); !slices.Equal(reached, []string{"/about", "/users/ann"}) {
		t.Errorf("reached the handler: %q", reached)
	}
	if got, want := m.Metrics(), (Metrics{Stopped: 2, Passed: 1, WithoutID: 1, SetBytes: set.SizeBytes()}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A testServer is a server on 127.0.0.1 with a table of users.
type testServer struct {
	*server
	t    testing.TB
	base string
}

func startServer(t testing.TB, n int) *testServer {
	t.Helper()
	u, remove, err := tempUsers(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	ids, err := NewIDs(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	s, handler := newServer(u, ids)
	hs := httptest.NewServer(handler)
	t.Cleanup(hs.Close)
	return &testServer{s, t, hs.URL}
}

// do sends a request, and returns the status and the body of the answer.
func (s *testServer) do(method, path, body string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	return resp.StatusCode, string(b)
}

// want does a request and compares the status.
func (s *testServer) want(status int, method, path, body string) (answer string) {
	s.t.Helper()
	got, answer := s.do(method, path, body)
	if got != status {
		s.t.Errorf("%s %s: status %d %s; want %d", method, path, got, answer, status)
	}
	return answer
}

// The filter keeps nearly all requests in vain from the database, and changes no answer.
func TestMeasure(t *testing.T) {
	c := config{users: 2000, requests: 4000, absent: 0.9}
	if testing.Short() || testenv.Race {
		c.users, c.requests = 500, 1000
	}
	u, remove, err := tempUsers(t.Context(), c.users)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	ids, err := NewIDs(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	asked, absent := requests(c)
	without, err := ask(t.Context(), u, nil, asked)
	if err != nil {
		t.Fatal(err)
	}
	with, err := ask(t.Context(), u, ids, asked)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("without %+v, with %+v", without, with)
	if without.notFound != absent || with.notFound != absent || without.queries != int64(c.requests) {
		t.Errorf("%d requests for no user; without a filter %+v, with it %+v", absent, without, with)
	}
	if vain := with.queries - int64(c.requests-absent); vain < 0 || vain > int64(absent)/30 || with.intercept.Stopped != int64(absent)-vain {
		t.Errorf("%d queries in vain of %d, %+v", vain, absent, with.intercept)
	}
	var out strings.Builder
	if err := measure(t.Context(), c, &out); err != nil || !strings.Contains(out.String(), "The filter of ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A user can be found as soon as the answer to PUT has come, and a deleted one costs queries
// until the next reload.
func TestServer(t *testing.T) {
	const n = 300
	s := startServer(t, n)
	if got := s.want(200, "GET", "/users/user7", ""); got != "made up\n" {
		t.Errorf("%q", got)
	}
	s.want(404, "GET", "/users/ann", "")
	s.want(204, "PUT", "/users/ann", "hello")
	if got := s.want(200, "GET", "/users/ann", ""); got != "hello\n" {
		t.Errorf("%q", got)
	}
	s.want(400, "PUT", "/users/big", strings.Repeat("x", maxProfile+1))
	for i := range n {
		s.want(204, "DELETE", fmt.Sprint("/users/user", i), "")
	}
	inVain := func() int64 {
		before := s.users.queries.Load()
		for i := range n {
			s.want(404, "GET", fmt.Sprint("/users/user", i), "")
		}
		return s.users.queries.Load() - before
	}
	if got := inVain(); got != n {
		t.Errorf("%d queries for deleted users, want %d", got, n)
	}
	s.want(204, "POST", "/reload", "")
	if got := inVain(); got > n/10 {
		t.Errorf("%d queries for deleted users after a reload", got)
	}
	s.want(200, "GET", "/users/ann", "")
	var m struct{ Stopped, Passed, Queries, SetBytes int64 }
	if err := json.Unmarshal([]byte(s.want(200, "GET", "/metrics", "")), &m); err != nil {
		t.Fatal(err)
	}
	if m.Queries != m.Passed || m.Stopped < n*9/10 || m.SetBytes <= 0 {
		t.Errorf("%+v", m)
	}
}

// While users are added and the filter is reloaded again and again, each client finds the
// users that it has added.
func TestServer_ReloadsUnderLoad(t *testing.T) {
	s := startServer(t, 2000)
	each := 60
	if testing.Short() || testenv.Race {
		each = 20
	}
	var clients, reloads sync.WaitGroup
	stop := make(chan struct{})
	n := 0
	reloads.Go(func() {
		for ; ; n++ {
			select {
			case <-stop:
				return
			default:
				s.want(204, "POST", "/reload", "")
			}
		}
	})
	for client := range 3 {
		clients.Go(func() {
			for i := range each {
				path := fmt.Sprintf("/users/new-%d-%d", client, i)
				s.want(204, "PUT", path, path)
				s.want(200, "GET", path, "")
			}
		})
	}
	clients.Wait()
	close(stop)
	reloads.Wait()
	for client := range 3 {
		for i := range each {
			s.want(200, "GET", fmt.Sprintf("/users/new-%d-%d", client, i), "")
		}
	}
	t.Logf("%d reloads", n)
}

// A table is a source in memory. It can be made to wait and to fail.
type table struct {
	mu   sync.Mutex
	rows []string

	reading chan struct{} // closed when ids has read the rows; nil: not
	between func()        // called after ids has read the rows
	err     error
}

func (tb *table) count(context.Context) (int, error) { return 10, nil }

func (tb *table) ids(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		tb.mu.Lock()
		rows := slices.Clone(tb.rows)
		tb.mu.Unlock()
		if tb.reading != nil {
			close(tb.reading)
		}
		if tb.between != nil {
			tb.between()
		}
		for _, id := range rows {
			if !yield(id, nil) {
				return
			}
		}
		if tb.err != nil {
			yield("", tb.err)
		}
	}
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
	tb := &table{rows: []string{"ann"}}
	ids, err := NewIDs(t.Context(), tb)
	if err != nil {
		t.Fatal(err)
	}
	return tb, ids
}

// The filter has an id before its row is committed, and keeps it if the commit fails.
func TestInsert_FilterFirst(t *testing.T) {
	_, ids := newTable(t)
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		id := fmt.Sprint("new", want)
		err := ids.Insert(id, func() error {
			if !ids.MayContainString(id) {
				t.Error("the row is committed before the filter has the id")
			}
			return want
		})
		if !errors.Is(err, want) || !ids.MayContain([]byte(id)) {
			t.Errorf("Insert = %v, want %v", err, want)
		}
	}
}

// A reload that begins while a row is being committed has the row's id.
func TestReload_DuringCommit(t *testing.T) {
	tb, ids := newTable(t)
	tb.reading = make(chan struct{})
	reloaded := make(chan error, 1)
	err := ids.Insert("eve", func() error {
		go func() { reloaded <- ids.Reload(t.Context()) }()
		select {
		case <-tb.reading: // the row is not there yet
		case <-time.After(100 * time.Millisecond):
		}
		return tb.commit("eve")()
	})
	if err := errors.Join(err, <-reloaded); err != nil {
		t.Fatal(err)
	}
	if !ids.MayContainString("eve") || !ids.MayContainString("ann") {
		t.Error("the new filter denies an id of the table")
	}
}

// A row that is committed after a reload has read the table is in the new filter.
func TestReload_CommitAfterReading(t *testing.T) {
	tb, ids := newTable(t)
	tb.between = func() {
		if err := ids.Insert("eve", tb.commit("eve")); err != nil {
			t.Error(err)
		}
	}
	if err := ids.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !ids.MayContainString("eve") {
		t.Error("the new filter denies a committed id")
	}
}

// After a reload that fails, the old filter goes on, and the next reload works.
func TestReload_Fails(t *testing.T) {
	tb, ids := newTable(t)
	tb.err = errors.New("broken")
	if err := ids.Reload(t.Context()); !errors.Is(err, tb.err) {
		t.Errorf("Reload = %v", err)
	}
	if _, err := NewIDs(t.Context(), tb); !errors.Is(err, tb.err) {
		t.Errorf("NewIDs = %v", err)
	}
	tb.err = nil
	if err := ids.Insert("eve", tb.commit("eve")); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		out := make([]bool, 2)
		if ids.MayContainKeys([][]byte{[]byte("ann"), []byte("eve")}, out); !out[0] || !out[1] {
			t.Errorf("ann, eve: %v", out)
		}
	}
	check()
	if err := ids.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
}

// -listen serves until it is interrupted.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, config{listen: "127.0.0.1:0", db: t.TempDir() + "/users.sqlite"}, w)
		w.Close()
	}()
	var base string
	if _, err := fmt.Fscanf(r, "%s", &base); err != nil {
		t.Fatal(err, <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if status, _, err := get(t.Context(), http.DefaultClient, base+"nobody"); status != 404 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestParseFlags(t *testing.T) {
	if c, err := parseFlags([]string{"-users", "7"}, t.Output()); err != nil || c.users != 7 || c.requests != 20_000 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, args := range [][]string{{"more"}, {"-listen", "127.0.0.1:0"}, {"-db", "x"}, {"-users", "0"}, {"-n", "-1"}, {"-absent", "NaN"}, {"-nonsense"}} {
		if _, err := parseFlags(args, t.Output()); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
