package shale

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// Reads of a snapshot that is closed meanwhile give what it shows, or ErrClosed:
// never another value, nor that a key is not there.
func TestSnapshot_ClosedBesideReads(t *testing.T) {
	const keys = 8
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i%keys) }
	rounds := 30
	if testenv.Long(t) > 0 {
		rounds = 300
	}
	for _, remove := range []bool{false, true} {
		o := small()
		o.FS = vfs.NewMem()
		db := openTest(t, o)
		for round := range rounds {
			want := fmt.Sprint(round)
			for i := range keys {
				mustPut(t, db, string(key(i)), want)
			}
			s := mustSnapshot(t, db)
			holds := func(what string, value []byte, err error) bool {
				if err == nil && string(value) != want || err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("round %d, keys removed %v: %s = %q, %v; want %s, or ErrClosed", round, remove, what, value, err, want)
				}
				return err == nil && !t.Failed()
			}
			var readers, begun sync.WaitGroup
			read := func(one func(i int) bool) {
				begun.Add(1)
				readers.Go(func() {
					for i := 0; one(i); i++ {
						if i == 0 {
							begun.Done()
						}
					}
				})
			}
			read(func(i int) bool {
				value, err := s.Get(key(i))
				return holds("Get", value, err)
			})
			read(func(i int) bool {
				found, err := s.Has(key(i))
				if err == nil && !found {
					return holds("Has", nil, ErrNotFound)
				}
				return holds("Has", []byte(want), err)
			})
			read(func(int) bool {
				n := 0
				for e, err := range s.Scan(Range{}) {
					if !holds("Scan", e.Value, err) {
						return false
					}
					n++
				}
				if n != keys {
					t.Errorf("round %d, keys removed %v: Scan gives %d keys, want %d, or ErrClosed", round, remove, n, keys)
				}
				return n == keys
			})
			begun.Wait()
			for i := range keys {
				if remove {
					mustDelete(t, db, string(key(i)))
				} else {
					mustPut(t, db, string(key(i)), "later")
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			mustFlush(t, db) // drops what no snapshot needs
			readers.Wait()
			if t.Failed() {
				return
			}
		}
	}
}
