//go:build lockorder

package lockorder

import (
	"strings"
	"testing"
)

func init() { fail = func(text string) { panic(text) } }

// panics returns what fn panics with, or "".
func panics(fn func()) (text string) {
	defer func() {
		if p := recover(); p != nil {
			text = p.(string)
		}
	}()
	fn()
	return ""
}

// A lock is taken after those before it in the order, and not under itself or a later one. A TryLock may.
func TestMutex_Order(t *testing.T) {
	var editing Mutex[Editing]
	var tree, other Mutex[Tree]
	var leaf, leaf2 Mutex[Leaf]
	if p := panics(func() {
		for range 2 {
			editing.Lock()
			tree.Lock()
			leaf.Lock()
			leaf2.Lock()
			editing.Unlock() // in any order
			leaf2.Unlock()
			leaf.Unlock()
			tree.Unlock()
		}
	}); p != "" {
		t.Fatal(p)
	}
	tree.Lock()
	for what, fn := range map[string]func(){"Editing": editing.Lock, "Tree": other.Lock, "Lead": Enter[Lead]} {
		if p := panics(fn); !strings.Contains(p, "lockorder."+what+" is taken under lockorder.Tree") {
			t.Errorf("%s: %q", what, p)
		}
	}
	if !editing.TryLock() {
		t.Error("TryLock fails")
	}
	editing.Unlock()
	done := make(chan string)
	go func() {
		defer func() { done <- recover().(string) }()
		Leave[Tree]()
	}()
	if p := <-done; !strings.Contains(p, "has not taken it") {
		t.Errorf("given up by another goroutine: %q", p)
	}
	tree.Unlock()
	leaf.Lock()
	if p := panics(tree.Lock); p == "" {
		t.Error("a lock is taken under a leaf")
	}
}

// A test that a file system calls may use another store. Without that, a test is at the bottom only.
func TestNested(t *testing.T) {
	const store, between, testing = "f()\n\t/x/shale/flush.go:1 +0x1\n", "g()\n\t/x/shale/a_test.go:2 +0x1\n", "h()\n\t/go/src/testing/testing.go:3 +0x1\n"
	for stack, want := range map[string]bool{
		store + store + between + testing:           false,
		store + between + store + between + testing: true,
		store + testing: false,
	} {
		if got := nested("goroutine 1 [running]:\n" + stack); got != want {
			t.Errorf("%t of\n%s", got, stack)
		}
	}
}
