package shale

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A follower that begins with a checkpoint, and keeps the number of the last change in the same batch as the change,
// becomes equal to its source, wherever the machine of both crashes. It never loses the feed: the logs are kept.
func TestChanges_OntoACheckpoint(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	for range 6 {
		followACheckpoint(t, r)
	}
}

// followerPlace is where the follower keeps the number. The source has no such key, and all of its keys are below it.
const followerPlace = "place"

// followACheckpoint has a source and its follower written to and crashed again and again.
func followACheckpoint(t *testing.T, r *rand.Rand) {
	mem := vfs.NewMem()
	durability := []Durability{SyncEach, SyncManual, SyncPeriodic}[r.IntN(3)]
	open := func(dir string) *DB {
		t.Helper()
		o := tinyStore(mem)
		o.KeepLog, o.Durability = 1<<30, durability
		return mustOpen(t, dir, &o)
	}
	source := open("db")
	writeSome(t, r, source)
	if err := source.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	follower := open("copy")
	for range 25 {
		writeSome(t, r, source)
		if err := source.Sync(); err != nil {
			t.Fatal(err)
		}
		most := 1 + r.IntN(60)
		if r.IntN(3) == 0 {
			most = 1 << 30
		}
		applyChanges(t, source, follower, most)
		if most == 1<<30 {
			if got, want := scanAll(t, follower, Range{Upper: []byte(followerPlace)}), scanAll(t, source, Range{}); got != want {
				t.Fatalf("the follower holds\n%.2000s\nwant\n%.2000s", got, want)
			}
		}
		writeSome(t, r, source) // what a crash may take
		if r.IntN(2) == 0 {
			continue
		}
		configs := vfs.CrashConfigs(r.Uint64())
		crashed := mem.Crash(configs[r.IntN(len(configs))])
		closeTest(t, follower)
		closeTest(t, source)
		mem = crashed
		source, follower = open("db"), open("copy")
	}
	closeTest(t, follower)
	closeTest(t, source)
}

// writeSome writes to db what a program may.
func writeSome(t *testing.T, r *rand.Rand, db *DB) {
	t.Helper()
	for range 1 + r.IntN(20) {
		var b Batch
		var err error
		for range 1 + r.IntN(4) {
			key := fmt.Appendf(nil, "k%06d", r.IntN(60))
			switch r.IntN(8) {
			case 0:
				err = b.Delete(key)
			case 1:
				err = b.DeleteRange(key, fmt.Appendf(nil, "k%06d", r.IntN(60)))
			default:
				err = b.Put(key, fmt.Append(nil, r.Uint64()))
			}
		}
		if err = errors.Join(err, db.Write(t.Context(), &b)); err != nil {
			t.Fatal(err)
		}
	}
	if from := r.IntN(60); r.IntN(4) == 0 {
		mustIngest(t, db, sortedKeys(from, from+1+r.IntN(20), fmt.Sprint(r.Uint64())))
	}
	if r.IntN(3) == 0 {
		mustFlush(t, db)
	}
}

// applyChanges has the follower take so many changes of the source, of which the newest write is durable.
func applyChanges(t *testing.T, source, follower *DB, most int) {
	t.Helper()
	var after uint64
	switch v, err := follower.Get([]byte(followerPlace)); {
	case err == nil:
		after = binary.BigEndian.Uint64(v)
	case errors.Is(err, ErrNotFound): // the checkpoint, as it was made
		s := mustSnapshot(t, follower)
		after = s.Seq()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatal(err)
	}
	last := ShippingOf(source).Position().LastSeq
	if after == last {
		return
	}
	for c, err := range source.Changes(t.Context(), after) {
		if err != nil {
			t.Fatalf("after number %d of %d: %v", after, last, err)
		}
		var b Batch
		for op := range c.Ops() {
			if err := b.Add(op); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(b.Put([]byte(followerPlace), binary.BigEndian.AppendUint64(nil, c.Last)), follower.Write(t.Context(), &b)); err != nil {
			t.Fatal(err)
		}
		if most--; most == 0 || c.Last >= last {
			return
		}
	}
}
