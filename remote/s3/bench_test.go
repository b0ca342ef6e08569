package s3_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// A gets counts the GETs of tables.
type gets struct {
	remote.Bucket
	n atomic.Int64
}

func (g *gets) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if n, ok := object.ParseName(name); ok && n.Kind == object.KindTable {
		g.n.Add(1)
	}
	return g.Bucket.ReadAt(ctx, name, p, off)
}

// BenchmarkReader asks a reader of a store on versitygw for keys that the store lacks and for keys that it has,
// without any cache of data: each false positive costs a GET, and so does each present key. The store has 500,000 keys
// with values of 200 bytes, and absent keys lie between them:
//
//	go test -run '^$' -bench Reader/absent -benchtime 1000000x -count 5 .
//	go test -run '^$' -bench Reader/present -benchtime 10000x .
func BenchmarkReader(b *testing.B) {
	const keys = 500_000
	bucket, err := s3.New(b.Context(), s3test.Start(b).Make(b, "bench"))
	if err != nil {
		b.Fatal(err)
	}
	s, err := remote.Open(b.Context(), b.TempDir(), bucket, &remote.Options{Publish: -1, Store: shale.Options{Durability: shale.SyncManual, MemtableSize: 16 << 20}})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 200)
	rng := rand.NewChaCha8([32]byte{1})
	for i := range keys {
		_, _ = rng.Read(value)
		if err := s.DB().Put(fmt.Appendf(nil, "key%010d", i*7919%keys), value); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.DB().Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.Publish(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	counted := &gets{Bucket: bucket}
	r, err := remote.OpenReader(b.Context(), counted, &remote.ReaderOptions{CacheBytes: -1, Interval: -1, Store: shale.Options{CacheSize: -1}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct {
		name    string
		present bool
		form    string
		most    float64
	}{{"absent", false, "key%010d/", 0.02}, {"present", true, "key%010d", 1}} {
		b.Run(c.name, func(b *testing.B) {
			before, n := counted.n.Load(), int64(0)
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				key := make([]byte, 0, 16)
				asked := int64(0)
				for pb.Next() {
					asked++
					key = fmt.Appendf(key[:0], c.form, rand.IntN(keys))
					if ok, err := r.Has(key); ok != c.present || err != nil {
						b.Errorf("%s: %v, %v", key, ok, err)
						return
					}
				}
				atomic.AddInt64(&n, asked)
			})
			each := float64(counted.n.Load()-before) / float64(max(n, 1))
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "keys/s")
			b.ReportMetric(each, "GETs/key")
			if n >= 10_000 && each > c.most {
				b.Errorf("%.4f GETs a key, want at most %v", each, c.most)
			}
		})
	}
}
