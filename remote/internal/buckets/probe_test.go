package buckets

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shaledb/shale/remote/internal/bucket"
	"github.com/shaledb/shale/remote/internal/remotetest"
	"github.com/shaledb/shale/vfs"
)

// TestProbe_Fit checks that both buckets pass, and that nothing is left in them.
func TestProbe_Fit(t *testing.T) {
	for name, b := range map[string]bucket.Bucket{"memory": NewMem(), "directory": mustDir(t, vfs.NewMem(), "bucket")} {
		for range 2 {
			if err := Probe(t.Context(), b, true); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for info := range b.List(t.Context(), "", "") {
			t.Errorf("%s: %s is left", name, info.Name)
		}
	}
}

// TestProbe_Unfit checks that a bucket that breaks a promise is refused with the error that names
// it.
func TestProbe_Unfit(t *testing.T) {
	mem := NewMem()
	deleted := map[string]bucket.Info{}
	var racing sync.Mutex
	for name, c := range map[string]struct {
		remotetest.Instead
		want error
	}{
		"it ignores conditions": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, _ bool) error {
			return mem.Put(ctx, name, body, size, sum, false)
		}}, ErrIgnoresConditions},
		"it replaces, and says that it has not": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			_, err := mem.Stat(ctx, name)
			if there := err == nil; there && absent {
				return errors.Join(bucket.ErrExists, mem.Put(ctx, name, body, size, sum, false))
			}
			return mem.Put(ctx, name, body, size, sum, absent)
		}}, ErrIgnoresConditions},
		"it ignores checksums": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, _ uint32, absent bool) error {
			return mem.Put(ctx, name, body, size, remotetest.ActualSum(body, size), absent)
		}}, ErrIgnoresChecksums},
		"it ignores checksums of replacements": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			if !absent {
				sum = remotetest.ActualSum(body, size)
			}
			return mem.Put(ctx, name, body, size, sum, absent)
		}}, ErrIgnoresChecksums},
		"it checks too late": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			if right := remotetest.ActualSum(body, size); sum != right {
				return errors.Join(bucket.ErrChecksum, mem.Put(ctx, name, body, size, right, absent))
			}
			return mem.Put(ctx, name, body, size, sum, absent)
		}}, ErrIgnoresChecksums},
		"it ignores ranges from the end": {remotetest.Instead{OnRead: func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return mem.ReadAt(ctx, name, p, max(0, off))
		}}, ErrInconsistent},
		"it ignores ranges": {remotetest.Instead{OnRead: func(ctx context.Context, name string, p []byte, off int64) (int, error) {
			return mem.ReadAt(ctx, name, p, min(0, off))
		}}, ErrInconsistent},
		"it forgets checksums": {remotetest.Instead{OnStat: func(ctx context.Context, name string) (bucket.Info, error) {
			info, err := mem.Stat(ctx, name)
			info.CRC32C = 0
			return info, err
		}}, ErrInconsistent},
		"its lists are stale": {remotetest.Instead{OnList: func(context.Context, string, string) iter.Seq2[bucket.Info, error] {
			return func(func(bucket.Info, error) bool) {}
		}}, ErrInconsistent},
		"its lists ignore where they begin": {remotetest.Instead{OnList: func(ctx context.Context, prefix, _ string) iter.Seq2[bucket.Info, error] {
			return mem.List(ctx, prefix, "")
		}}, ErrInconsistent},
		"its lists ignore prefixes": {remotetest.Instead{OnList: func(ctx context.Context, _, after string) iter.Seq2[bucket.Info, error] {
			return mem.List(ctx, "", after)
		}}, ErrInconsistent},
		"its lists have no order": {remotetest.Instead{OnList: func(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
			return func(yield func(bucket.Info, error) bool) {
				var all []bucket.Info
				for info := range mem.List(ctx, prefix, after) {
					all = append(all, info)
				}
				for _, info := range slices.Backward(all) {
					if !yield(info, nil) {
						return
					}
				}
			}
		}}, ErrInconsistent},
		// The object is that of the last one who was told so: only their number is wrong.
		"several calls at the same time create an object": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			if !absent || size != 1 {
				return mem.Put(ctx, name, body, size, sum, absent)
			}
			if _, err := mem.Stat(ctx, name); err == nil {
				return bucket.ErrExists
			}
			time.Sleep(10 * time.Millisecond) // as between two sites that replicate to each other
			racing.Lock()
			defer racing.Unlock()
			var mine, there [1]byte
			_, err := body.ReadAt(mine[:], 0)
			if _, thereErr := mem.ReadAt(ctx, name, there[:], 0); thereErr == nil && there[0] > mine[0] {
				return nil
			}
			return errors.Join(err, mem.Put(ctx, name, body, size, sum, false))
		}}, ErrIgnoresConditions},
		"it tells the wrong one that it has created an object": {remotetest.Instead{OnPut: func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, absent bool) error {
			err := mem.Put(ctx, name, body, size, sum, absent)
			if err == nil && size == 1 {
				mustNil(t, bucket.PutObject(ctx, mem, name, []byte("z"), false))
			}
			return err
		}}, ErrIgnoresConditions},
		"it does not delete": {remotetest.Instead{OnDelete: func(context.Context, string) error { return nil }}, ErrInconsistent},
		"it lists what was deleted": {remotetest.Instead{
			OnDelete: func(ctx context.Context, name string) error {
				racing.Lock()
				deleted[name] = bucket.Info{Name: name}
				racing.Unlock()
				return mem.Delete(ctx, name)
			},
			OnList: func(ctx context.Context, prefix, after string) iter.Seq2[bucket.Info, error] {
				return func(yield func(bucket.Info, error) bool) {
					racing.Lock()
					info, was := deleted[prefix]
					racing.Unlock()
					if was {
						yield(info, nil)
						return
					}
					mem.List(ctx, prefix, after)(yield)
				}
			}}, ErrInconsistent},
	} {
		b := &remotetest.Fake{Bucket: mem, Instead: c.Instead}
		err := Probe(t.Context(), b, true)
		if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "remote: probe: the bucket ") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		// Without races, only this answer shows it.
		if name == "it replaces, and says that it has not" && !errors.Is(Probe(t.Context(), b, false), c.want) {
			t.Errorf("%s: it is fit if no calls race", name)
		}
		for _, other := range []error{ErrIgnoresConditions, ErrIgnoresChecksums, ErrInconsistent} {
			if other != c.want && errors.Is(err, other) {
				t.Errorf("%s: %v is also %v", name, err, other)
			}
		}
	}
}

// TestProbe_WithoutDelete probes a bucket whose credentials may not delete, time and again: a few objects stay, and what is
// unfit is found as well.
func TestProbe_WithoutDelete(t *testing.T) {
	mem := NewMem()
	no := func(context.Context, string) error { return remotetest.Refusal{Err: errors.New("403: access denied")} }
	b := &remotetest.Fake{Bucket: mem, Instead: remotetest.Instead{OnDelete: no}}
	for range 5 {
		mustNil(t, Probe(t.Context(), b, true))
	}
	if names := remotetest.NamesOf(t, mem, ""); len(names) != 3 {
		t.Errorf("left are %q", names)
	}
	b.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64, sum uint32, _ bool) error {
		return mem.Put(ctx, name, body, size, sum, false)
	}
	if err := Probe(t.Context(), b, true); !errors.Is(err, ErrIgnoresConditions) {
		t.Errorf("conditions are ignored: %v", err)
	}
	b.OnPut = func(ctx context.Context, name string, body io.ReaderAt, size int64, _ uint32, absent bool) error {
		return mem.Put(ctx, name, body, size, remotetest.ActualSum(body, size), absent)
	}
	if err := Probe(t.Context(), b, true); !errors.Is(err, ErrIgnoresChecksums) {
		t.Errorf("checksums are ignored: %v", err)
	}
}

// TestProbe_Unusable checks that a bucket that can't be reached is not called unfit.
func TestProbe_Unusable(t *testing.T) {
	away := errors.New("no route to host")
	calls := []remotetest.Instead{
		{OnPut: func(context.Context, string, io.ReaderAt, int64, uint32, bool) error { return away }},
		{OnStat: func(context.Context, string) (bucket.Info, error) { return bucket.Info{}, away }},
		{OnRead: func(context.Context, string, []byte, int64) (int, error) { return 0, away }},
		{OnList: func(context.Context, string, string) iter.Seq2[bucket.Info, error] {
			return func(yield func(bucket.Info, error) bool) { yield(bucket.Info{}, away) }
		}},
		{OnDelete: func(context.Context, string) error { return away }},
	}
	for i := range calls {
		err := Probe(t.Context(), &remotetest.Fake{Bucket: NewMem(), Instead: calls[i]}, true)
		if !errors.Is(err, away) || errors.Is(err, ErrIgnoresConditions) || errors.Is(err, ErrIgnoresChecksums) || errors.Is(err, ErrInconsistent) {
			t.Errorf("call %d fails: %v", i, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Probe(ctx, NewMem(), true); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe with a cancelled context: %v", err)
	}
}

// TestProbe_CleansUp cancels the context in the middle. The object goes all the same.
func TestProbe_CleansUp(t *testing.T) {
	mem := NewMem()
	ctx, cancel := context.WithCancel(t.Context())
	b := &remotetest.Fake{Bucket: mem, Instead: remotetest.Instead{OnRead: func(ctx context.Context, name string, p []byte, off int64) (int, error) {
		cancel()
		return mem.ReadAt(ctx, name, p, off)
	}}}
	if err := Probe(ctx, b, true); !errors.Is(err, context.Canceled) {
		t.Errorf("Probe = %v", err)
	}
	for info := range mem.List(t.Context(), "", "") {
		t.Errorf("%s is left", info.Name)
	}
}
