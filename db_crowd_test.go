package shale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A crowd is a store that many goroutines use at once. Every batch writes one round of a
// group: all keys of the group get the round's number, or are deleted in every fourth round.
// So a read that sees one state of the store finds the same round in all keys of a group.
type crowd struct {
	t      *testing.T
	db     *DB
	groups int
	rounds []atomic.Uint64 // the last acknowledged round of each group
	copies atomic.Int64
}

const crowdKeys = 6 // of a group, spread over the key range

func crowdKey(group, i int) []byte { return fmt.Appendf(nil, "%d-group%02d", i, group) }

// write writes the next round of a group, which only the caller writes.
func (c *crowd) write(group int, r *rand.Rand) error {
	round := c.rounds[group].Load() + 1
	value := binary.LittleEndian.AppendUint64(nil, round)
	value = append(value, make([]byte, r.IntN(300))...)
	var b Batch
	for i := range crowdKeys {
		var err error
		if round%4 == 0 {
			err = b.Delete(crowdKey(group, i))
		} else {
			err = b.Put(crowdKey(group, i), value)
		}
		if err != nil {
			return err
		}
	}
	if err := c.db.Write(context.Background(), &b); err != nil {
		return err
	}
	c.rounds[group].Store(round)
	return nil
}

// roundIn returns the round in the value of a lookup, or 0 if the key is absent.
func roundIn(value []byte, err error) (uint64, error) {
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return 0, err
	}
	return binary.LittleEndian.Uint64(value), nil
}

// checkGroup reads a group from a snapshot. All its keys must have the same round, which is
// not older than the last one that was acknowledged before.
func (c *crowd) checkGroup(group int) error {
	least := c.rounds[group].Load()
	s, err := c.db.Snapshot()
	if err != nil {
		return err
	}
	defer s.Close()
	most := c.rounds[group].Load() + 1 // may be visible before it is acknowledged
	var first uint64
	for i := range crowdKeys {
		round, err := roundIn(s.Get(crowdKey(group, i)))
		if err != nil {
			return err
		}
		if i == 0 {
			first = round
		}
		if round != first {
			c.t.Errorf("group %d in one snapshot: key 0 of round %d, key %d of %d", group, first, i, round)
		}
	}
	if !crowdRound(first, least, most) {
		c.t.Errorf("group %d in a snapshot: round %d, want one in [%d, %d]", group, first, least, most)
	}
	return nil
}

// checkGetMany reads a group by GetMany. All its keys must have the same round.
func (c *crowd) checkGetMany(group int) error {
	var keys [][]byte
	for i := range crowdKeys {
		keys = append(keys, crowdKey(group, i))
	}
	var first uint64
	return c.db.GetMany(keys, func(i int, value []byte, found bool) error {
		round := uint64(0)
		if found {
			round = binary.LittleEndian.Uint64(value)
		}
		if i == 0 {
			first = round
		}
		if round != first {
			c.t.Errorf("group %d in one GetMany: key 0 of round %d, key %d of %d", group, first, i, round)
		}
		return nil
	})
}

// checkScan walks all entries forward or backward. They must be in order, and each group must
// be as checkGroup wants it.
func (c *crowd) checkScan(reverse bool) error {
	least := c.acknowledged()
	var most []uint64
	rounds := make(map[string]uint64)
	count := make(map[string]int)
	var last []byte
	for e, err := range c.db.Scan(Range{Reverse: reverse}) {
		if err != nil {
			return err
		}
		if last == nil {
			most = c.acknowledged()
		}
		if last != nil && bytes.Compare(last, e.Key) > 0 != reverse {
			c.t.Errorf("Scan, reverse %v: %q after %q", reverse, e.Key, last)
		}
		last = append(last[:0], e.Key...)
		_, group, _ := bytes.Cut(e.Key, []byte("-"))
		round := binary.LittleEndian.Uint64(e.Value)
		if was, ok := rounds[string(group)]; ok && was != round {
			c.t.Errorf("Scan, reverse %v: %s of rounds %d and %d", reverse, group, was, round)
		}
		rounds[string(group)] = round
		count[string(group)]++
	}
	for group, n := range count {
		if n != crowdKeys {
			c.t.Errorf("Scan, reverse %v: %d keys of %s, want %d", reverse, n, group, crowdKeys)
		}
	}
	if most == nil {
		most = c.acknowledged()
	}
	for group := range most {
		round := rounds[fmt.Sprintf("group%02d", group)]
		if !crowdRound(round, least[group], most[group]+1) {
			c.t.Errorf("Scan, reverse %v: group %d of round %d, want one in [%d, %d]", reverse, group, round, least[group], most[group]+1)
		}
	}
	return nil
}

// acknowledged returns the last acknowledged round of each group.
func (c *crowd) acknowledged() []uint64 {
	last := make([]uint64, len(c.rounds))
	for i := range last {
		last[i] = c.rounds[i].Load()
	}
	return last
}

// crowdRound reports whether a group may be found with a round, where 0 means that it is
// absent, if the last round written is between least and most.
func crowdRound(round, least, most uint64) bool {
	if round == 0 {
		return most/4*4 >= least
	}
	return round >= least && round <= most
}

// checkIterator seeks random keys with one iterator. The same seek must always end on the
// same entry.
func (c *crowd) checkIterator(r *rand.Rand) error {
	it := c.db.NewIterator(Range{KeysOnly: r.IntN(2) == 0})
	defer it.Close()
	seen := make(map[string]string)
	for range 20 {
		key := crowdKey(r.IntN(c.groups), r.IntN(crowdKeys))
		ok := it.SeekGE(key)
		if r.IntN(2) == 0 && ok {
			ok = it.Next() && it.Prev()
		}
		found := ""
		if ok {
			found = string(it.Key())
		}
		if err := it.Err(); err != nil {
			return err
		}
		if was, again := seen[string(key)]; again && ok && was != found {
			c.t.Errorf("SeekGE(%q) = %q, before it was %q", key, found, was)
		}
		if ok {
			seen[string(key)] = found
		}
	}
	return nil
}

// checkpoint makes a checkpoint and checks that all its groups are whole.
func (c *crowd) checkpoint() error {
	dir := filepath.Join("copies", fmt.Sprint(c.copies.Add(1)))
	if err := c.db.Checkpoint(dir); err != nil {
		return err
	}
	db, err := Open(dir, &Options{FS: c.db.fs, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("open checkpoint: %w", err)
	}
	defer db.Close()
	return (&crowd{t: c.t, db: db}).checkScan(false)
}

// members returns what each goroutine does again and again, by its name.
func (c *crowd) members() map[string]func(r *rand.Rand) error {
	any := func(r *rand.Rand) int { return r.IntN(c.groups) }
	ctx := context.Background()
	m := map[string]func(r *rand.Rand) error{
		"snapshots":      func(r *rand.Rand) error { return c.checkGroup(any(r)) },
		"more snapshots": func(r *rand.Rand) error { return c.checkGroup(any(r)) },
		"GetMany":        func(r *rand.Rand) error { return c.checkGetMany(any(r)) },
		"scans":          func(r *rand.Rand) error { return c.checkScan(r.IntN(2) == 0) },
		"iterators":      c.checkIterator,
		"flushes":        func(*rand.Rand) error { return c.db.Flush(ctx) },
		"checkpoints":    func(*rand.Rand) error { return c.checkpoint() },
		"compactions": func(r *rand.Rand) error {
			return c.db.Compact(ctx, Range{Lower: crowdKey(0, r.IntN(crowdKeys)), Upper: crowdKey(0, crowdKeys)})
		},
		"questions": func(r *rand.Rand) error {
			key := crowdKey(any(r), crowdKeys) // absent
			if ok, err := c.db.Has(key); ok || err != nil {
				return fmt.Errorf("Has(%q) = %v: %w", key, ok, err)
			}
			x, err := c.db.Explain(key)
			if err == nil && x.Found {
				return fmt.Errorf("Explain(%q) finds it", key)
			}
			c.db.MayContain(key)
			c.db.MayContainMany([][]byte{key, {1}}, make([]bool, 2))
			_, _ = c.db.Metrics(), c.db.Tables()
			return err
		},
	}
	for g := range c.groups {
		m[fmt.Sprintf("writer %d", g)] = func(r *rand.Rand) error { return c.write(g, r) }
	}
	return m
}

// TestConcurrency_Crowd runs readers, writers, iterators, snapshots, flushes, compactions and
// checkpoints at once, and closes the store while they run.
func TestConcurrency_Crowd(t *testing.T) {
	seed := testenv.Seed(t)
	mem := vfs.NewMem()
	opts := &Options{FS: mem, MemtableSize: 16 << 10, TableSize: 8 << 10, BlockSize: 512, CacheSize: 32 << 10, MaxOpenFiles: 16,
		Durability: SyncManual, CompactionWorkers: 2, testing: testOptions{baseSize: 16 << 10}}
	db := openTest(t, opts)
	c := &crowd{t: t, db: db, groups: 4}
	c.rounds = make([]atomic.Uint64, c.groups)
	rounds := uint64(300)
	if testing.Short() || testenv.Race {
		rounds = 80
	}
	c.run(seed, rounds)
	wantNoOpenFiles(t, mem)

	c.db = openTest(t, opts)
	if err := c.checkScan(false); err != nil {
		t.Error(err)
	}
	for g := range c.groups {
		if err := c.checkGroup(g); err != nil {
			t.Error(err)
		}
	}
	if m := c.db.Metrics(); m.OpenIterators != 0 || m.OpenSnapshots != 0 {
		t.Errorf("%d iterators and %d snapshots are open", m.OpenIterators, m.OpenSnapshots)
	}
}

// run runs all members until the first writer has written as many rounds as it says, closes
// the store while they go on, and waits until each has got ErrClosed.
func (c *crowd) run(seed, rounds uint64) {
	var wg sync.WaitGroup
	for name, step := range c.members() {
		r := rand.New(rand.NewPCG(seed, uint64(len(name))))
		wg.Go(func() {
			for {
				runtime.Gosched() // let writers, which wait for each other, have their turns
				if err := step(r); err != nil {
					if !errors.Is(err, ErrClosed) {
						c.t.Errorf("%s: %v", name, err)
					}
					return
				}
			}
		})
	}
	wg.Go(func() {
		for c.rounds[0].Load() < rounds && !c.t.Failed() {
			if err := c.db.Sync(); err != nil {
				c.t.Error(err)
			}
		}
		if err := c.db.Close(); err != nil {
			c.t.Errorf("Close: %v", err)
		}
	})
	wg.Wait()
}
