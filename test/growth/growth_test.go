// Package growth does one thing to a store for long, and nothing else. Afterwards the store may have no more
// files and bytes than its data explain. There are programs that use one call only, so each call must by
// itself make the store get rid of all that it adds to.
package growth

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
)

// Each operation alone, and each in turns with the put of one key, leaves a small store small.
func TestMonoculture(t *testing.T) {
	testenv.SkipRace(t)
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	steps := 150
	if testing.Short() {
		steps = 100
	}
	if testenv.Long(t) > 0 {
		steps = 10_000
	}
	var most sizes
	for _, o := range slices.Concat(harness.Operations, harness.LifeOperations) {
		for _, also := range []bool{false, true} {
			ok := harness.Try(t, program(seed, steps, o, also), func(p harness.Program) error {
				p.Steps = append(p.Steps, harness.Step{Name: "measure", Life: func(l *harness.Life) error {
					got, err := measure(l)
					most.max(got)
					return err
				}})
				l := harness.NewLife(p.Seed)
				l.Change = func(o *shale.Options) {
					o.CompactionWorkers, o.KeepLog = max(o.CompactionWorkers, 1), 0 // kept logs are as many as one wants
				}
				return harness.RunLife(l, p.All())
			})
			if !ok {
				t.Errorf("%s is the only operation; the put of one key is next to it: %v", o.Name, also)
			}
		}
	}
	t.Logf("%d steps of each operation; at most %v", steps, &most)
}

// keysOf returns keys that are few, so that there is little live data, and long, so that all that holds a key
// grows fast. They can't be compressed.
func keysOf(seed uint64) (keys []string) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range 8 {
		key := make([]byte, 1000)
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		keys = append(keys, string(key))
	}
	return keys
}

// program returns a program of one operation. also says that each step is followed by a put of one key.
func program(seed uint64, steps int, o harness.Operation, also bool) harness.Program {
	keys := keysOf(seed)
	put := func(s *harness.Source) harness.Step {
		value := s.Value()
		return harness.Step{Name: "put", Args: "of one key", Do: func(s *harness.Side) string {
			return harness.ErrText(s.Put([]byte(keys[0]), value))
		}}
	}
	s := harness.NewSource(keys)
	s.Exact = true
	s.Reseed(seed)
	p := harness.Program{Seed: seed}
	for _, key := range keys {
		w := harness.Write{Ops: []shale.Op{{Kind: shale.OpPut, Key: []byte(key), Value: s.Value()}}}
		p.Steps = append(p.Steps, harness.Fill([]harness.Write{w}))
	}
	for range steps {
		p.Steps = append(p.Steps, o.Draw(s))
		if also {
			p.Steps = append(p.Steps, put(s))
		}
	}
	return p.All()
}

// sizes are how many files and bytes of each type are in the directory of a store.
type sizes struct{ files, bytes [base.FileFilter + 1]int64 }

func (s *sizes) max(other sizes) {
	for i := range s.files {
		s.files[i], s.bytes[i] = max(s.files[i], other.files[i]), max(s.bytes[i], other.bytes[i])
	}
}

func (s *sizes) String() string {
	n, b := &s.files, &s.bytes
	return fmt.Sprintf("%d logs of %d bytes, %d tables of %d, %d sidecars of %d, %d manifests of %d", n[base.FileLog], b[base.FileLog],
		n[base.FileTable], b[base.FileTable], n[base.FileFilter], b[base.FileFilter], n[base.FileManifest], b[base.FileManifest])
}

// measure lets go of what the program holds, waits for the store to come to rest, and compares the directory
// with what the live data explain.
func measure(l *harness.Life) (got sizes, err error) {
	if err := errors.Join(l.LetGo(), harness.WaitIdle(l.DB)); err != nil {
		return got, err
	}
	harness.LogsOf(l.DB).GiveUp() // logs to be used again, and the prepared one
	if err := harness.Strays(l.DB, l.Mem, harness.Dir); err != nil {
		return got, err
	}
	live := int64(0)
	for _, e := range l.Model.Now().Entries() {
		live += int64(len(e.Key) + len(e.Value))
	}
	names, err := l.Mem.List(harness.Dir)
	if err != nil {
		return got, err
	}
	for _, name := range names {
		kind, _, _ := base.ParseFileName(name) // Strays has seen that all are the store's
		size, err := sizeOf(l, name)
		if err != nil {
			return got, err
		}
		got.files[kind]++
		got.bytes[kind] += size
	}
	// Level 0 has up to a dozen flushes before it is compacted. A log has up to a memtable and a batch, and
	// reserves 64 KiB. A recovered memtable keeps up to eight logs, which have a memtable together.
	const batch = 64 << 10
	memtable, table := l.Opts.MemtableSize, l.Opts.TableSize
	var most sizes
	most.bytes[base.FileTable] = 4*live + 12*memtable + batch
	most.files[base.FileTable] = 16 + most.bytes[base.FileTable]/table
	most.bytes[base.FileLog] = 3*memtable + 64<<10 + batch
	most.files[base.FileLog] = 8 + 2
	most.bytes[base.FileManifest] = 1<<20 + batch + most.files[base.FileTable]*4<<10
	most.files[base.FileManifest] = 1
	most.bytes[base.FileFilter], most.files[base.FileFilter] = most.bytes[base.FileTable], most.files[base.FileTable]
	most.bytes[base.FileCurrent], most.files[base.FileCurrent] = 100, 1
	most.bytes[base.FileLock], most.files[base.FileLock] = 100, 1
	for kind := range got.files {
		if got.files[kind] > most.files[kind] || got.bytes[kind] > most.bytes[kind] {
			return got, fmt.Errorf("with %d bytes of live data, memtables of %d and tables of %d bytes, the store has %v; want at most %v",
				live, memtable, table, &got, &most)
		}
	}
	return got, nil
}

func sizeOf(l *harness.Life, name string) (int64, error) {
	f, err := l.Mem.Open(filepath.Join(harness.Dir, name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}
