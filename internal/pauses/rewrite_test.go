package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tempModule makes a module of these files, with package pause in it.
func tempModule(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	pause, err := os.ReadFile("pause/pause.go")
	if err != nil {
		t.Fatal(err)
	}
	files["go.mod"] = "module example.org/m\n\ngo 1.25\n"
	files["internal/pauses/pause/pause.go"] = string(pause)
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	return root
}

// Every atomic access, lock, unlock and channel operation gets a site, and nothing else
// does. Lines keep their numbers.
func TestOverlay_Sites(t *testing.T) {
	const before = `package m // of a comment

import (
	"sync"
	"sync/atomic"
)

type t struct {
	mu sync.RWMutex
	n  atomic.Int64
	p  atomic.Pointer[t]
	m  sync.Map
}

func (x *t) Load() int64 { return x.n.Load() + 1 }

func all(x *t, c chan int) (int64, bool) {
	x.mu.Lock() // a comment
	defer x.mu.Unlock()
	defer x.n.Store(1)
	x.n.Add(2)
	x.n.Store(x.Load())
	x.p.Load().p.Load().mu.RLock()
	if v, ok := x.m.Load(1); ok {
		return 0, v == nil && x.mu.TryLock()
	}
	var word uint32
	atomic.StoreUint32(&word, atomic.LoadUint32(&word))
	for x.n.CompareAndSwap(1, 2) {
		c <- 1
		<-c
	}
	select {
	case v, ok := <-c:
		return int64(v), ok
	case c <- 1:
	default:
	}
	go x.mu.Unlock()
again:
	x.mu.RUnlock()
	if len(c) > 0 {
		goto again
	}
	return 0, false
}

//go:nosplit
func special(x *t) int64 { return x.n.Load() }
`
	const after = `package m; import pauses_ "example.org/m/internal/pauses/pause" // of a comment

import (
	"sync"
	"sync/atomic"
)

type t struct {
	mu sync.RWMutex
	n  atomic.Int64
	p  atomic.Pointer[t]
	m  sync.Map
}

func (x *t) Load() int64 { return pauses_.After(x.n.Load(), #) + 1 }

func all(x *t, c chan int) (int64, bool) {
	x.mu.Lock(); pauses_.At(#) // a comment
	defer pauses_.Later(x.mu.Unlock, #)()
	defer x.n.Store(1)
	pauses_.After(x.n.Add(2), #)
	x.n.Store(x.Load()); pauses_.At(#)
	pauses_.After(pauses_.After(x.p.Load(), #).p.Load(), #).mu.RLock(); pauses_.At(#)
	if v, ok := x.m.Load(1); ok {
		return 0, v == nil && pauses_.After(x.mu.TryLock(), #)
	}
	var word uint32
	atomic.StoreUint32(&word, pauses_.After(atomic.LoadUint32(&word), #)); pauses_.At(#)
	for pauses_.After(x.n.CompareAndSwap(1, 2), #) {
		c <- 1; pauses_.At(#)
		<-c; pauses_.At(#)
	}
	select {
	case v, ok := <-c: pauses_.At(#);
		return int64(v), ok
	case c <- 1: pauses_.At(#);
	default: pauses_.At(#);
	}
	go x.mu.Unlock()
again:
	x.mu.RUnlock(); pauses_.At(#)
	if len(c) > 0 {
		goto again
	}
	return 0, false
}

//go:nosplit
func special(x *t) int64 { return x.n.Load() }
`
	root := tempModule(t, map[string]string{"m.go": before})
	dir := t.TempDir()
	w := newRewriter("example.org/m")
	if _, err := w.overlay(root, dir, []string{"./"}, nil); err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(filepath.Join(dir, "example.org-m", "m.go"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(anyNumber(string(copied)), "\n"), strings.Split(anyNumber(after), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d: %q, want %q", i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
		}
	}
	if n := strings.Count(after, "#"); len(w.sites) != n || w.sites[0] != "m.go:15" {
		t.Errorf("%d sites, want %d; the first is %s", len(w.sites), n, w.sites[0])
	}
}

// anyNumber writes # for the numbers of sites.
func anyNumber(text string) string {
	return regexp.MustCompile(`(At\(|, )[0-9]+\)`).ReplaceAllString(text, "$1#)")
}

// A bug between two neighbouring lines, which a test does not find alone, shows with
// pauses, and the report names the site between the lines.
func TestRunner_FindsABug(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests")
	}
	root := tempModule(t, map[string]string{
		"m.go": `package m

import "sync/atomic"

type account struct{ left, right, other atomic.Int64 }

// move breaks that the sum is always 100.
func (a *account) move() {
	a.left.Add(-1)
	a.right.Add(1)
	a.other.Add(1)
}

func (a *account) sum() int64 { return a.left.Load() + a.right.Load() }
`,
		"m_test.go": `package m

import (
	"testing"
	"time"
)

func TestSum(t *testing.T) {
	var a account
	a.left.Store(100)
	done := make(chan bool)
	go func() {
		time.Sleep(time.Millisecond)
		a.move()
		close(done)
	}()
	for range 20 {
		time.Sleep(200 * time.Microsecond)
		if n := a.sum(); n < 100 {
			t.Errorf("the sum is %d", n)
		}
	}
	<-done
}
`})
	r := runner{ctx: context.Background(), module: "example.org/m", packages: []string{"./"}, tests: []testsOf{{"./", "^TestSum$", 1}},
		root: root, time: time.Minute, seed: 7}
	failed, err := r.all()
	if err != nil || failed != 1 {
		t.Errorf("%d tests failed, %v; want 1", failed, err)
	}
}
