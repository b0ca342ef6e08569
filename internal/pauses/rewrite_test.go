package main

import (
	"context"
	"os"
	"path/filepath"
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
