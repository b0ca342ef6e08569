package stores

import (
	"time"

	"github.com/shaledb/shale/bench/peers/internal/results"
)

// nullStore does nothing: what a workload costs on it is the benchmark's own
// share of every figure.
type nullStore struct{}

func (*nullStore) Open(string, Options) error       { return nil }
func (*nullStore) Writer() (Writer, error)          { return nullStore{}, nil }
func (*nullStore) Reader(Way) (Reader, error)       { return nullStore{}, nil }
func (*nullStore) Iterator() (Iterator, error)      { return nullIterator{}, nil }
func (*nullStore) Flush() error                     { return nil }
func (*nullStore) Settle() error                    { return nil }
func (*nullStore) Counts() Counts                   { return unknownCounts }
func (*nullStore) Levels() ([]results.Level, error) { return nil, nil }

func (nullStore) Put([]byte, []byte) error                   { return nil }
func (nullStore) Delete([]byte) error                        { return nil }
func (nullStore) Get([]byte) (int, uint64, error)            { return 0, 0, nil }
func (nullStore) Refresh() error                             { return nil }
func (nullStore) Close() error                               { return nil }
func (nullStore) DeleteRange([]byte, []byte) error           { return nil }
func (nullStore) PutTTL([]byte, []byte, time.Duration) error { return nil }
func (nullStore) Batch(n int, entry func() (k, v []byte)) error {
	for range n {
		entry()
	}
	return nil
}

var nothing [100]byte

type nullIterator struct{ nullStore }

func (nullIterator) First() bool            { return true }
func (nullIterator) Last() bool             { return true }
func (nullIterator) SeekGE([]byte) bool     { return true }
func (nullIterator) Next() bool             { return true }
func (nullIterator) Prev() bool             { return true }
func (nullIterator) Key() []byte            { return nothing[:16] }
func (nullIterator) Value() ([]byte, error) { return nothing[:], nil }
