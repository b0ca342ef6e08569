package bbolt

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// benchKeys is how many keys there are: scattered ones of 16 bytes, with values of 100 bytes.
const benchKeys = 1_000_000

func benchKey(i int) []byte {
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key, uint64(i)*0x9e3779b97f4a7c15)
	return key
}

// Benchmark compares this package with bbolt: an Update with one Put of a random key, without a sync; a View with one Get of a
// key that is there, or is not. First it fills both, 10,000 keys a transaction.
func Benchmark(b *testing.B) {
	b.Run("bbolt", func(b *testing.B) {
		db, err := bolt.Open(filepath.Join(b.TempDir(), "db"), 0o600, &bolt.Options{NoSync: true, FreelistType: bolt.FreelistMapType})
		if err != nil {
			b.Fatal(err)
		}
		benchmark(b, db.Update, db.View, (*bolt.Tx).CreateBucketIfNotExists, (*bolt.Tx).Bucket)
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("shale", func(b *testing.B) {
		db, err := Open(filepath.Join(b.TempDir(), "db"), 0o600, &Options{NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		benchmark(b, db.Update, db.View, (*Tx).CreateBucketIfNotExists, (*Tx).Bucket)
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

// A table is what both kinds of buckets have.
type table interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
}

func benchmark[Tx any, B table](b *testing.B, update, view func(func(Tx) error) error, create func(Tx, []byte) (B, error), bucket func(Tx, []byte) B) {
	name, value := []byte("bucket"), make([]byte, 100)
	order := rand.New(rand.NewPCG(1, 1)).Perm(benchKeys)
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			for begin := 0; begin < benchKeys; begin += 10_000 {
				must(b, update(func(tx Tx) error {
					t, err := create(tx, name)
					for _, i := range order[begin:min(begin+10_000, benchKeys)] {
						err = errors.Join(err, t.Put(benchKey(i), value))
					}
					return err
				}))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/key")
	})
	b.Run("put", func(b *testing.B) {
		for b.Loop() {
			must(b, update(func(tx Tx) error { return bucket(tx, name).Put(benchKey(rand.IntN(benchKeys)), value) }))
		}
	})
	for what, from := range map[string]int{"get": 0, "absent": benchKeys} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				must(b, view(func(tx Tx) error {
					if found := bucket(tx, name).Get(benchKey(from+rand.IntN(benchKeys))) != nil; found != (from == 0) {
						return errors.New("a Get finds the wrong keys")
					}
					return nil
				}))
			}
		})
	}
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}
