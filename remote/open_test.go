package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// copyOf returns the directory as a copy that is made at this moment has it.
func copyOf(m *vfs.Mem) *vfs.Mem {
	return m.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
}

// refused fails the test unless Open returns an error that wraps want, and says each of the words.
func refused(t *testing.T, what string, fsys vfs.FS, dir string, b Bucket, want error, words ...string) {
	t.Helper()
	s, err := Open(t.Context(), dir, b, manual(fsys))
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, want) {
		t.Errorf("%s: Open = %v, want %v", what, err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: the error does not say %q: %v", what, word, err)
		}
	}
}

// TestOpen_Refuses opens directories that do not belong to the bucket. Each is told why, and what to do,
// and the owner does not notice.
func TestOpen_Refuses(t *testing.T) {
	testenv.CheckLeaks(t)
	fsys, b := vfs.NewMem(), NewMem()
	s := openStore(t, "db", b, manual(fsys))
	model := map[string]string{}
	old := copyOf(fsys) // as it was before anything was shipped
	put(t, s, model, "a", 100)
	mustNil(t, s.Ship(t.Context()))
	refused(t, "a copy from before a segment", old, "db", b, ErrFenced, "older copy", "restore", "Salvage")
	old = copyOf(fsys)
	mustNil(t, s.Publish(t.Context()))
	refused(t, "a copy from before a step", old, "db", b, ErrFenced, "older copy", "restore", "Salvage")

	refused(t, "an empty directory", vfs.NewMem(), "new", b, ErrNotEmpty, "Restore", fmt.Sprintf("%016x", s.id))

	other := vfs.NewMem()
	db, err := shale.Open("db", &shale.Options{FS: other})
	mustNil(t, err)
	mustNil(t, db.Close())
	refused(t, "another store", other, "db", b, ErrOtherStore, "another bucket", fmt.Sprintf("%016x", s.id))

	mustNil(t, s.DB().Checkpoint("checkpoint"))
	refused(t, "a checkpoint", fsys, "checkpoint", b, ErrFenced, "never been used with this bucket", "restore")

	refused(t, "the directory itself", fsys, "db", b, vfs.ErrLocked)
	put(t, s, model, "b", 100)
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, s.Close())

	o := manual(fsys)
	o.Store.Exist = shale.MustNotExist
	if _, err := Open(t.Context(), "db", b, o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("with MustNotExist: %v", err)
	}
	for _, o := range []Options{
		{Store: shale.Options{Shipping: shale.ShippingOptions{HoldLogs: 1}}}, {Store: shale.Options{Shipping: shale.ShippingOptions{FirstFileNum: 1}}}, {Store: shale.Options{ReadOnly: true}},
		{Store: shale.Options{Shipping: shale.ShippingOptions{Gate: func(shale.LogPosition) error { return nil }}}}, {MaxLag: -1}, {Uploads: -1},
	} {
		if _, err := Open(t.Context(), "db", b, &o); err == nil || !strings.Contains(err.Error(), "option ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, "new", NewMem(), manual(vfs.NewMem())); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}

// TestOpen_WrongCredentials opens a store in a bucket that refuses everything, and nothing is made or
// claimed. A store that is open goes on when the bucket begins to refuse, with one event.
func TestOpen_WrongCredentials(t *testing.T) {
	denied := remotetest.Refusal{Err: errors.New("access denied: check the credentials")}
	refuse := func(string, string) error { return denied }
	b := remotetest.NewFake(NewMem())
	b.Hook(refuse, nil)
	fsys := vfs.NewMem()
	begun := time.Now()
	if _, err := Open(t.Context(), "db", b, manual(fsys)); !errors.Is(err, denied) || time.Since(begun) > 5*time.Second {
		t.Errorf("Open = %v after %v", err, time.Since(begun))
	}
	if _, err := fsys.Stat("db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	inTime(t, nil, func(t *testing.T, s *Store, b *remotetest.Fake, events *eventList) {
		time.Sleep(90 * time.Second)
		b.Hook(refuse, nil)
		model := map[string]string{}
		put(t, s, model, "a", 10)
		time.Sleep(10 * time.Minute)
		if got := events.kinds(); !slices.Equal(got, []EventKind{EventAway}) || !errors.Is(events.events[len(events.events)-1].Err, denied) {
			t.Errorf("events: %v", events.events)
		}
		b.Hook(nil, nil)
		time.Sleep(time.Minute)
		sameMap(t, "restored", restoredContents(t, b.Bucket), model)
	})
}

// TestOpen_UnfitBucket opens a store in a bucket that ignores conditions or checksums. The error says which, and nothing is
// made or claimed.
func TestOpen_UnfitBucket(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		put  func(mem Bucket) func(context.Context, string, io.ReaderAt, int64, uint32, bool) error
	}{
		{"conditions", ErrIgnoresConditions, func(mem Bucket) func(context.Context, string, io.ReaderAt, int64, uint32, bool) error {
			return func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, _ bool) error {
				return mem.Put(ctx, name, body, size, sum, false)
			}
		}},
		{"checksums", ErrIgnoresChecksums, func(mem Bucket) func(context.Context, string, io.ReaderAt, int64, uint32, bool) error {
			return func(ctx context.Context, name string, body io.ReaderAt, size int64, _ uint32, absent bool) error {
				return mem.Put(ctx, name, body, size, remotetest.ActualSum(body, size), absent)
			}
		}},
	} {
		mem, fsys := NewMem(), vfs.NewMem()
		_, err := Open(t.Context(), "db", &remotetest.Fake{Bucket: mem, Instead: remotetest.Instead{OnPut: c.put(mem)}}, manual(fsys))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "ignores "+c.name) || !strings.Contains(err.Error(), "use a server") {
			t.Errorf("%s: Open = %v", c.name, err)
		}
		if _, err := fsys.Stat("db"); !errors.Is(err, fs.ErrNotExist) || len(remotetest.NamesOf(t, mem, "")) > 0 {
			t.Errorf("%s: something was made: %v, %q", c.name, err, remotetest.NamesOf(t, mem, ""))
		}
	}
}

// TestOpen_FullDisk opens a store, and restores one, on a disk that is full from some operation up. Both say what to do,
// and succeed when there is room.
func TestOpen_FullDisk(t *testing.T) {
	b := NewMem()
	s := openStore(t, "db", b, manual(vfs.NewMem()))
	model := map[string]string{}
	put(t, s, model, "a", 10)
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	full := func(from int64) *faultfs.FS {
		n := int64(0)
		return faultfs.New(vfs.NewMem(), func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpCreate || op == vfs.OpWrite || op == vfs.OpPreallocate {
				if n++; n > from {
					return syscall.ENOSPC
				}
			}
			return nil
		})
	}
	refused := 0
	for from := int64(0); ; from++ {
		disk := full(from)
		_, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: disk})
		if err == nil {
			break
		}
		refused++
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("Restore, room for %d writes: %v", from, err)
		}
		disk.Inject(nil)
		if _, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: disk}); err != nil {
			t.Errorf("Restore again, room for %d writes at first: %v", from, err)
		}
	}
	for from := int64(0); from < 40; from++ {
		disk, bucket := full(from), NewMem()
		s, err := Open(t.Context(), "db", bucket, manual(disk))
		if err == nil {
			err = s.Close()
		}
		if err == nil {
			continue
		}
		if refused++; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open, room for %d writes: %v", from, err)
		}
		disk.Inject(nil)
		s, err = Open(t.Context(), "db", bucket, manual(disk))
		if err != nil {
			t.Errorf("Open again, room for %d writes at first: %v", from, err)
			continue
		}
		mustNil(t, s.Close())
	}
	t.Log(refused, "refusals")
}

// TestOpen_LateClaims kills programs that have noted their claim, and lets the PUT of one of them arrive later: the directory
// has written that step itself, and goes on, however many have tried.
func TestOpen_LateClaims(t *testing.T) {
	for late := range 4 {
		mem, hooked := vfs.NewMem(), remotetest.NewFake(NewMem())
		s := openStore(t, "db", hooked, manual(mem))
		model := map[string]string{}
		put(t, s, model, "a", 10)
		mustNil(t, s.Publish(t.Context()))
		mustNil(t, s.Close())
		old := copyOf(mem)
		var arrives func() error
		for life := range 4 {
			hooked.Refuse("put", object.StepFolder)
			b := &remotetest.Fake{Bucket: hooked, Instead: remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
				if strings.HasPrefix(name, object.StepFolder) && life == late && arrives == nil {
					data := make([]byte, size)
					_, err := body.ReadAt(data, 0)
					mustNil(t, err)
					arrives = func() error { return PutObject(context.Background(), hooked.Bucket, name, data, true) }
				}
				return hooked.Put(ctx, name, body, size, sum, absent)
			}}}
			if s, err := Open(t.Context(), "db", b, manual(mem)); err == nil {
				t.Fatal("Open has claimed the store")
			} else if s != nil {
				t.Fatal(s)
			}
		}
		hooked.Hook(nil, nil)
		mustNil(t, arrives())
		refused(t, "a copy from before", old, "db", hooked, ErrFenced)
		s, err := Open(t.Context(), "db", hooked, manual(mem))
		if err != nil {
			t.Fatalf("claim %d arrives: %v", late, err)
		}
		put(t, s, model, "b", 1)
		mustNil(t, s.Publish(t.Context()))
		mustNil(t, s.Close())
		sameMap(t, "restored", restoredContents(t, hooked), model)
	}
}
