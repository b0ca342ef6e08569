package bbolt

import (
	"context"
	stderrors "errors"
	"iter"
	"os"
	"slices"

	"github.com/shaledb/shale"
)

// This file has Import, which makes a store of what another database has.

// A Tree is a bucket with all that is in it: a *Bucket of this package, or of go.etcd.io/bbolt. The root of a transaction is
// tx.Cursor().Bucket().
type Tree[B any] interface {
	ForEach(fn func(k, v []byte) error) error
	ForEachBucket(fn func(name []byte) error) error
	Bucket(name []byte) B
	Sequence() uint64
}

// Import makes a database in the new directory path that has all that is in root. It keeps the names of buckets in memory, but
// no other keys. After an error, and after a crash, there is no database that Open takes.
func Import[B Tree[B]](path string, mode os.FileMode, root B) (err error) {
	options := DefaultOptions.store()
	options.Exist = shale.MustNotExist
	store, err := openStore(path, mode, options)
	if err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, store.Close()) }()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s := state{tx: 1}
	if err := store.Ingest(ctx, entries(root, &s.next, cancel)); err != nil {
		return err
	}
	return store.Put(stateKey, s.encode()) // without it, Open refuses the store
}

// A branch is a bucket that is still to be walked, with the buckets in it.
type branch[B any] struct {
	bucket B
	names  [][]byte
}

// entries returns the entries of a store with all that is in root, and sets next to the number of the next bucket. Buckets
// get their numbers in the order in which they are met, and are walked in this order, so keys ascend. If a walk fails, it
// calls fail.
func entries[B Tree[B]](root B, next *uint64, fail func(error)) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		stopped := stderrors.New("bolt: the walk was stopped")
		walk := func() error {
			first, err := branchOf(root)
			queue := []branch[B]{first}
			for n := 0; n < len(queue) && err == nil; n++ {
				at := queue[n]
				queue[n] = branch[B]{} // gives its memory up
				prefix := append(appendNumber(nil, uint64(n)), partBuckets)
				for _, name := range at.names {
					child, err := branchOf(at.bucket.Bucket(name))
					if err != nil {
						return err
					}
					h := header{uint64(len(queue)), child.bucket.Sequence(), len(child.names) > 0}
					queue = append(queue, child)
					if !yield(slices.Concat(prefix, name), h.encode()) {
						return stopped
					}
				}
				prefix[len(prefix)-1] = partValues
				err = at.bucket.ForEach(func(k, v []byte) error {
					if v != nil && !yield(slices.Concat(prefix, k), v) {
						return stopped
					}
					return nil
				})
			}
			*next = uint64(len(queue))
			return err
		}
		if err := walk(); err != nil {
			fail(err)
		}
	}
}

func branchOf[B Tree[B]](b B) (branch[B], error) {
	var names [][]byte
	err := b.ForEachBucket(func(name []byte) error {
		names = append(names, name)
		return nil
	})
	return branch[B]{b, names}, err
}
