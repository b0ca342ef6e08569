package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/typed"
)

// Package typed works in transactions of a group: map, indexes and counter agree on all members, and an index that was added
// later is filled.
func TestUpdate_Typed(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3, func(o *Options) { o.Forward = true })
	words := typed.NewMap("words", typed.Uint64, typed.AsValue(typed.String))
	byWord := typed.NewIndex(words, "word", typed.String, func(w string) string { return w }).Unique()
	typed.NewIndex(words, "first", typed.String, func(w string) string { return w[:1] })
	const writers, each = 6, 8
	var unsure atomic.Int64
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				unsure.Add(int64(g.led("a transaction", func() error {
					return g.members[i%3].Update(short(t), func(tx *Txn) error {
						id, err := typed.Add(tx, []byte("next"), 1)
						if err == nil && n%4 == 3 {
							err = words.Delete(tx, uint64(id-1))
						}
						if err == nil {
							err = words.Put(tx, uint64(id), fmt.Sprintf("%c%d", 'a'+i, n%3))
						}
						if errors.Is(err, typed.ErrNotUnique) {
							return nil
						}
						return err
					})
				})))
			}
		})
	}
	wg.Wait()
	byLast := typed.NewIndex(words, "last", typed.String, func(w string) string { return w[1:] })
	for done := false; !done; {
		g.led("a step", func() error {
			return g.leader().Update(short(t), func(tx *Txn) (err error) { done, err = words.BuildStep(tx); return err })
		})
	}
	g.agree()
	data, err := g.members[0].Local().Get([]byte("next"))
	mustNil(t, err)
	if n, err := typed.Counter.Decode(data); err != nil || n < writers*each || n > writers*each+unsure.Load() {
		t.Errorf("the counter is %d, %v; %d transactions were acknowledged, %d may have happened", n, err, writers*each, unsure.Load())
	}
	for _, m := range g.members {
		mustNil(t, words.Check(t.Context(), m.Local()))
		var found []string
		for f, err := range byLast.Scan(m.Local(), typed.Only("0")) {
			mustNil(t, err)
			if id, _, err := byWord.Get(m.Local(), f.Value); err != nil || id != f.Key {
				t.Errorf("%q is %d and %d, %v", f.Value, f.Key, id, err)
			}
			found = append(found, f.Value)
		}
		if len(found) == 0 || len(found) > 6 {
			t.Errorf("found %s", strings.Join(found, " "))
		}
	}
}
