package remote

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A distant is a bucket that takes its time, and counts how many reads of segments are under way.
type distant struct {
	Bucket
	reads, most, bytes, mostBytes atomic.Int64
}

func (d *distant) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	n, bytes := d.reads.Add(1), d.bytes.Add(int64(len(p)))
	d.most.Store(max(d.most.Load(), n))
	d.mostBytes.Store(max(d.mostBytes.Load(), bytes))
	waitFor(ctx, 20*time.Millisecond, nil)
	err := ctx.Err()
	d.reads.Add(-1)
	d.bytes.Add(-int64(len(p)))
	if err != nil {
		return 0, err
	}
	return d.Bucket.ReadAt(ctx, name, p, off)
}

// A strict store has a segment for each write. A restore fetches many of them at the same time, but no more bytes than
// it may, and ends at once with its context.
func TestSegments_Ahead(t *testing.T) {
	for _, c := range []struct {
		what            string
		segments, value int
		most            time.Duration
	}{{"small ones", 1000, 10, 1000 * 20 * time.Millisecond / 50}, {"large ones", 12, 12 << 20, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			b := &distant{Bucket: NewMem()}
			s, err := Open(t.Context(), "db", b.Bucket, &Options{Ship: -1, Publish: -1, Flush: -1, Strict: true, Store: shale.Options{FS: vfs.NewMem()}})
			mustNil(t, err)
			for i := range c.segments {
				mustNil(t, s.DB().Put(fmt.Append(nil, i), make([]byte, c.value)))
			}
			begin := time.Now()
			r, err := Restore(t.Context(), b, "to", At{}, &RestoreOptions{FS: vfs.NewMem()})
			mustNil(t, err)
			if took := time.Since(begin); r.At.Seq != uint64(c.segments) || took > c.most {
				t.Errorf("%s: restored %v in %v, want at most %v", c.what, r.At, took, c.most)
			}
			if most := int64(64<<20 + 2*(c.value+4096)); b.mostBytes.Load() > most || b.most.Load() > 65 {
				t.Errorf("%s: %d segments with %d bytes at the same time, want at most %d bytes", c.what, b.most.Load(), b.mostBytes.Load(), most)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
			defer cancel()
			begin = time.Now()
			if _, err := Restore(ctx, b, "to", At{}, &RestoreOptions{FS: vfs.NewMem()}); err == nil || time.Since(begin) > 100*time.Millisecond {
				t.Errorf("%s: cancelled: %v after %v", c.what, err, time.Since(begin))
			}
			mustNil(t, s.Close())
		})
	}
}
