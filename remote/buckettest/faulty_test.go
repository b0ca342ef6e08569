package buckettest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
)

var allFaults = []buckettest.Fault{
	buckettest.None, buckettest.DropBefore, buckettest.DropAfter, buckettest.Late, buckettest.Duplicate,
	buckettest.Delay, buckettest.Conflict, buckettest.Cut, buckettest.Flip,
}

// always returns a Faulty over a new bucket with the object "old", and that bucket. Every call has
// the fault.
func always(t *testing.T, fault buckettest.Fault) (*buckettest.Faulty, remote.Bucket) {
	t.Helper()
	mem := remote.NewMem()
	if err := remote.PutObject(t.Context(), mem, "old", []byte("old bytes"), true); err != nil {
		t.Fatal(err)
	}
	return buckettest.NewFaulty(mem, time.Second, func(buckettest.Op) buckettest.Fault { return fault }), mem
}

// there reports whether a bucket has an object.
func there(t *testing.T, b remote.Bucket, name string) bool {
	t.Helper()
	_, err := b.Stat(t.Context(), name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestFaulty_Changes makes each fault with a Put and a Delete: what the caller is told, and what the
// bucket has then, and after Replay.
func TestFaulty_Changes(t *testing.T) {
	for _, c := range []struct {
		fault    buckettest.Fault
		err      error // of a Put with absent
		deleteIs error
		now      bool // it has happened
		late     int  // what Replay does
		then     bool // it has happened after that
	}{
		{buckettest.None, nil, nil, true, 0, true},
		{buckettest.DropBefore, buckettest.ErrDropped, buckettest.ErrDropped, false, 0, false},
		{buckettest.DropAfter, buckettest.ErrDropped, buckettest.ErrDropped, true, 0, true},
		{buckettest.Late, buckettest.ErrDropped, buckettest.ErrDropped, false, 1, true},
		{buckettest.Duplicate, nil, nil, true, 1, true},
		{buckettest.Conflict, buckettest.ErrConflict, nil, false, 0, false},
		{buckettest.Cut, io.ErrUnexpectedEOF, nil, false, 0, false},
		{buckettest.Flip, remote.ErrChecksum, nil, false, 0, false},
	} {
		f, mem := always(t, c.fault)
		body := []byte("new bytes")
		err := remote.PutObject(t.Context(), f, "new", body, true)
		if !errors.Is(err, c.err) || errors.Is(err, remote.ErrExists) || there(t, mem, "new") != c.now {
			t.Errorf("%v: Put = %v, and it is there: %v; want %v, %v", c.fault, err, there(t, mem, "new"), c.err, c.now)
		}
		if string(body) != "new bytes" {
			t.Errorf("%v: Put has changed the caller's body to %q", c.fault, body)
		}
		clear(body) // the caller goes on, and a late request is not to be changed by that
		if n := f.Replay(t.Context()); n != c.late || there(t, mem, "new") != c.then {
			t.Errorf("%v: Replay = %d, and it is there: %v; want %d, %v", c.fault, n, there(t, mem, "new"), c.late, c.then)
		}
		if got, err := remote.ReadObject(t.Context(), mem, "new", 99); c.then && (err != nil || string(got) != "new bytes") {
			t.Errorf("%v: the object is %q, %v", c.fault, got, err)
		}
		wantGone := c.deleteIs == nil || c.now
		if err := f.Delete(t.Context(), "old"); !errors.Is(err, c.deleteIs) || there(t, mem, "old") == wantGone {
			t.Errorf("%v: Delete = %v, and it is there: %v; want %v, %v", c.fault, err, there(t, mem, "old"), c.deleteIs, !wantGone)
		}
		f.Replay(t.Context())
		if there(t, mem, "old") && c.late > 0 {
			t.Errorf("%v: a late Delete has not happened", c.fault)
		}
		if f.Replay(t.Context()) != 0 {
			t.Errorf("%v: Replay does the same twice", c.fault)
		}
	}
}

// TestFaulty_Reads makes each fault with the calls that only read.
func TestFaulty_Reads(t *testing.T) {
	for _, fault := range allFaults {
		if fault == buckettest.Delay {
			continue
		}
		f, _ := always(t, fault)
		want := []byte("old bytes")
		got := make([]byte, len(want))
		n, err := f.ReadAt(t.Context(), "old", got, 0)
		info, serr := f.Stat(t.Context(), "old")
		var names []string
		var lerr error
		for i, err := range f.List(t.Context(), "", "") {
			if lerr = err; err == nil {
				names = append(names, i.Name)
			}
		}
		lost := fault == buckettest.DropBefore || fault == buckettest.DropAfter
		switch {
		case lost && (n != 0 || !errors.Is(err, buckettest.ErrDropped) || !errors.Is(serr, buckettest.ErrDropped) || !errors.Is(lerr, buckettest.ErrDropped) || names != nil):
			t.Errorf("%v: ReadAt = %d, %v; Stat: %v; List = %q, %v", fault, n, err, serr, names, lerr)
		case lost:
		case serr != nil || info.Size != int64(len(want)):
			t.Errorf("%v: Stat = %+v, %v", fault, info, serr)
		case fault == buckettest.Cut && (n >= len(want) || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(lerr, buckettest.ErrDropped)):
			t.Errorf("%v: ReadAt = %d, %v; List: %v", fault, n, err, lerr)
		case fault == buckettest.Cut:
		case err != nil || lerr != nil || !slices.Equal(names, []string{"old"}):
			t.Errorf("%v: ReadAt = %d, %v; List = %q, %v", fault, n, err, names, lerr)
		case fault == buckettest.Flip && difference(got, want) != 1:
			t.Errorf("%v: %d bits of %q differ, want 1", fault, difference(got, want), got)
		case fault != buckettest.Flip && !bytes.Equal(got, want):
			t.Errorf("%v: ReadAt gives %q", fault, got)
		}
	}
}

// difference returns how many bits of two byte strings of one length differ.
func difference(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// TestFaulty_Hang checks that calls that hang end with their context, with its error, and what they have done.
func TestFaulty_Hang(t *testing.T) {
	for _, fault := range []buckettest.Fault{buckettest.HangBefore, buckettest.HangBody, buckettest.HangAfter} {
		synctest.Test(t, func(t *testing.T) {
			f, mem := always(t, fault)
			hangs := func(call func(ctx context.Context) error) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
					t.Errorf("%v: %v", fault, err)
				}
			}
			hangs(func(ctx context.Context) error { return remote.PutObject(ctx, f, "new", []byte("x"), true) })
			if is, want := there(t, mem, "new"), fault == buckettest.HangAfter; is != want {
				t.Errorf("%v: the object is there: %v", fault, is)
			}
			hangs(func(ctx context.Context) error { _, err := f.ReadAt(ctx, "old", make([]byte, 9), 0); return err })
			hangs(func(ctx context.Context) (err error) {
				for _, err = range f.List(ctx, "", "") {
				}
				return err
			})
			if fault == buckettest.HangBody {
				return // the others have none
			}
			hangs(func(ctx context.Context) error { _, err := f.Stat(ctx, "old"); return err })
			hangs(func(ctx context.Context) error { return f.Delete(ctx, "old") })
			if is, want := there(t, mem, "old"), fault == buckettest.HangBefore; is != want {
				t.Errorf("%v: the object is there after Delete: %v", fault, is)
			}
		})
	}
}

// TestAt checks that one call of one method has the fault.
func TestAt(t *testing.T) {
	f := buckettest.NewFaulty(remote.NewMem(), 0, buckettest.At(buckettest.Delete, 2, buckettest.DropBefore))
	for i := range 4 {
		if _, err := f.Stat(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat = %v", err)
		}
		if err := f.Delete(t.Context(), "a"); errors.Is(err, buckettest.ErrDropped) != (i == 1) {
			t.Errorf("Delete %d = %v", i+1, err)
		}
	}
	if n, m := f.Count(buckettest.Delete), f.Count(buckettest.Put); n != 4 || m != 0 {
		t.Errorf("%d deletes and %d puts are counted, want 4 and 0", n, m)
	}
}
