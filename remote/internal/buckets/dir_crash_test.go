package buckets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A life is what a script has done with a bucket: what must be in it, and what may be.
type life struct {
	sure map[string][]byte   // calls that have returned; nil: the object is absent
	also map[string][][]byte // what else an object may be, because a call has not returned, or with an error
}

// A change is one call of the script.
type change struct {
	name   string
	data   []byte // nil: Delete
	absent bool
}

// script goes through all forms of calls: new folders, folders that become empty, names that are
// taken, objects that are replaced.
var script = []change{
	{"id", []byte("identity"), true},
	{"m/1", []byte("step one"), true},
	{"m/1", []byte("another one"), true},
	{"t/3f/a.sst", []byte("table"), false},
	{"t/3f/a.sst", []byte("table again"), false},
	{"w/1/0", []byte("segment"), true},
	{"w/1/1", []byte{}, true},
	{"w/1/0", nil, false},
	{"w/1/1", nil, false},
	{"w/1/0", []byte("once more"), true},
	{"t/3f/a.sst", nil, false},
	{"t/3f/b.sst", nil, false},
}

// run runs the script. Calls may fail.
func (l *life) run(b bucket.Bucket) {
	l.sure, l.also = map[string][]byte{}, map[string][][]byte{}
	for _, c := range script {
		l.also[c.name] = append(l.also[c.name], c.data)
		var err error
		if c.data == nil {
			err = b.Delete(context.Background(), c.name)
		} else {
			err = bucket.PutObject(context.Background(), b, c.name, c.data, c.absent)
		}
		switch {
		case err == nil:
			l.sure[c.name] = c.data
			l.also[c.name] = nil
		case errors.Is(err, bucket.ErrExists):
			// The answer says that an object is there, durably: any of those that may be but this one.
			l.also[c.name] = l.also[c.name][:len(l.also[c.name])-1]
			if l.sure[c.name] == nil {
				l.sure[c.name] = []byte("some object")
			}
		}
	}
}

// judge returns what is wrong with a bucket after a crash.
func (l *life) judge(b bucket.Bucket) error {
	listed := map[string]bool{}
	for info, err := range b.List(context.Background(), "", "") {
		if err != nil {
			return err
		}
		listed[info.Name] = true
	}
	for name := range l.also {
		data, err := bucket.ReadObject(context.Background(), b, name, 1000)
		absent := errors.Is(err, fs.ErrNotExist)
		if err != nil && !absent {
			return err
		}
		if listed[name] == absent {
			return fmt.Errorf("%s: listed %v, but reading says %v", name, listed[name], err)
		}
		if !l.may(name, data, absent) {
			return fmt.Errorf("%s is %q, absent %v; want %q or one of %q", name, data, absent, l.sure[name], l.also[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		return fmt.Errorf("%s is in the list", name)
	}
	return nil
}

// may reports whether an object may be as it is.
func (l *life) may(name string, data []byte, absent bool) bool {
	if want := l.sure[name]; absent == (want == nil) && (string(data) == string(want) || string(want) == "some object") {
		return true
	}
	for _, other := range l.also[name] {
		if absent == (other == nil) && string(data) == string(other) {
			return true
		}
	}
	return false
}

// TestDir_CrashAtEveryOperation crashes the disk before each operation of the script, in every way.
// What a call has acknowledged is there, and no object is half there.
func TestDir_CrashAtEveryOperation(t *testing.T) {
	m := vfs.NewMem()
	b := mustDir(t, m, "bucket")
	var l life
	crashes, ops := 0, 0
	check := func() {
		for seed := range uint64(3) {
			for _, c := range vfs.CrashConfigs(seed + uint64(ops)*100) {
				for _, c.Journal = range []bool{false, true} {
					crashes++
					after, err := NewDir(m.Crash(c), "bucket")
					if err == nil {
						err = l.judge(after)
					}
					if err != nil {
						t.Fatalf("crash %v at operation %d: %v", c, ops, err)
					}
				}
			}
		}
	}
	m.OnOp(func(vfs.Op, string) { ops++; check() })
	l.run(b)
	m.OnOp(nil)
	check()
	if want := len(script) * 4; ops < want {
		t.Errorf("%d operations, want %d at least", ops, want)
	}
	t.Logf("%d operations, %d crashes", ops, crashes)
}

// TestDir_FaultAtEveryOperation fails each operation of the script once, before and after it has
// happened, and crashes the disk afterwards.
func TestDir_FaultAtEveryOperation(t *testing.T) {
	errIO := errors.New("input/output error")
	count := faultfs.New(vfs.NewMem(), nil)
	new(life).run(mustDir(t, count, "bucket"))
	for name, fault := range map[string]*faultfs.Fault{"before": {Err: errIO}, "after": {Err: errIO, After: true}, "short": {Err: errIO, Short: true}} {
		for k := int64(1); k <= count.Ops(); k++ {
			m := vfs.NewMem()
			b := mustDir(t, m, "bucket")
			var l life
			l.run(&dirBucket{fs: faultfs.New(m, faultfs.FailAt(k, fault)), root: "bucket"})
			if err := l.judge(b); err != nil {
				t.Errorf("%s, operation %d: %v", name, k, err)
			}
			if n := m.OpenFiles(); n != 0 {
				t.Errorf("%s, operation %d: %d files are left open", name, k, n)
			}
			for _, c := range vfs.CrashConfigs(uint64(k)) {
				if err := l.judge(mustDir(t, m.Crash(c), "bucket")); err != nil {
					t.Errorf("%s, operation %d, then crash %v: %v", name, k, c, err)
				}
			}
		}
	}
	if left, err := count.List(filepath.Join("bucket", unfinished)); err != nil || len(left) > 0 {
		t.Errorf("%q is left without faults, %v", left, err)
	}
}
