package s3_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/internal/counted"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// A store most of whose tables are on a real server answers like a model, through rewrites, deletions, collections and lives
// of its process. Absent keys ask for little, a restore has all of it, and nothing is damaged.
func TestServer_Evict(t *testing.T) {
	s3test.Each(t, func(t *testing.T, server *s3test.Server) { testEvict(t, opened(t, server, server.Make(t, "evict"))) })
}

func testEvict(t *testing.T, bucket remote.Bucket) {
	const keys, budget = 30_000, 1 << 20
	b, dir, model, random := counted.New(bucket), t.TempDir(), make(map[string]string), rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	noise := rand.NewChaCha8([32]byte{1})
	for range 2 {
		s, err := remote.Open(t.Context(), dir, b, &remote.Options{
			Ship: 200 * time.Millisecond, Publish: time.Second, Retain: 1, LocalBytes: budget,
			Store: shale.Options{Durability: shale.SyncManual, MemtableSize: budget / 16, TableSize: budget / 16, CacheSize: budget / 16, OnEvent: func(shale.Event) {}},
		})
		must(t, err)
		for i := range 16_000 {
			key := fmt.Sprintf("key%07d", random.IntN(keys))
			if i%10 == 0 {
				must(t, s.DB().Delete([]byte(key)))
				delete(model, key)
				continue
			}
			_, _ = noise.Read(value) // it never fails
			must(t, s.DB().Put([]byte(key), value))
			model[key] = string(value)
		}
		must(t, s.DB().Flush(t.Context()))
		must(t, s.Publish(t.Context()))
		testenv.WaitFor(t, "tables to be evicted", func() bool { return bucketOnly(t, s) > budget/4 })
		same(t, s.DB(), model)
		before := b.Counts()
		for i := range 2000 {
			if has, err := s.DB().Has(fmt.Appendf(nil, "key%07d/", i*keys/2000)); has || err != nil {
				t.Fatalf("an absent key: %v, %v", has, err)
			}
		}
		if gets := b.Counts().Since(before).TableGets; gets > 60 {
			t.Errorf("2,000 absent keys took %d GETs", gets)
		}
		_, err = s.Collect(t.Context())
		must(t, err)
		must(t, s.Close())
	}
	report, err := remote.Verify(t.Context(), b, true)
	if must(t, err); len(report.Findings) > 0 {
		t.Errorf("findings: %v", report.Findings)
	}
	copied := t.TempDir()
	_, err = remote.Restore(t.Context(), b, copied, remote.At{}, nil)
	must(t, err)
	db, err := shale.Open(copied, &shale.Options{Exist: shale.MustExist})
	must(t, err)
	defer closed(t, db)
	same(t, db, model)
}

// bucketOnly returns how many bytes of tables only the bucket has.
func bucketOnly(t *testing.T, s *remote.Store) (n int64) {
	t.Helper()
	places, err := s.Places()
	must(t, err)
	for _, l := range places {
		n += l.Bucket.Bytes
	}
	return n
}

// same fails the test unless a store has what a model has.
func same(t *testing.T, r shale.Reader, model map[string]string) {
	t.Helper()
	got := make(map[string]string)
	for e, err := range r.Scan(shale.Range{}) {
		must(t, err)
		got[string(e.Key)] = string(e.Value)
	}
	if !maps.Equal(got, model) {
		t.Fatalf("%d entries, want %d, or others", len(got), len(model))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closed closes what was only read.
func closed(t *testing.T, c io.Closer) {
	t.Helper()
	must(t, c.Close())
}
