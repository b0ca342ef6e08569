package shale

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A faultCase is one fault, and the life that it is for.
type faultCase struct {
	op     vfs.Op
	mode   string
	k      int64
	inject vfs.InjectFunc
	seed   uint64 // of the options
	noMap  bool
	ending int
	crash  vfs.CrashConfig // if the ending is one
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s, operation %d of kind %q, options of seed %d, without mapping %v, ending %d", c.mode, c.k, c.op, c.seed, c.noMap, c.ending)
}

// faultOps are the operations that a script is failed at.
var faultOps = []vfs.Op{
	vfs.OpCreate, vfs.OpOpen, vfs.OpOpenReadWrite, vfs.OpRename, vfs.OpRemove, vfs.OpLink, vfs.OpMkdirAll,
	vfs.OpList, vfs.OpStat, vfs.OpLock, vfs.OpSyncDir, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate,
	vfs.OpPreallocate, vfs.OpMap, vfs.OpMapWrite, vfs.OpUnmap, vfs.OpClose,
}

// faultCases returns all faults: at each operation of each kind, in each mode,
// with each ending, in lives with the options of the seed.
func faultCases(counts map[vfs.Op]int64, seed uint64) []faultCase {
	var cases []faultCase
	configs := crashConfigs(seed)
	add := func(op vfs.Op, mode string, k int64, inject func() vfs.InjectFunc) {
		for ending := range numEndings {
			i := len(cases)
			cases = append(cases, faultCase{op, mode, k, inject(), seed, i/7%2 == 1, ending, configs[i%len(configs)]})
		}
	}
	for _, op := range faultOps {
		for k := int64(1); k <= counts[op]; k++ {
			add(op, "once", k, func() vfs.InjectFunc { return vfs.FailAt(k, syscall.EIO, op) })
			add(op, "for good", k, func() vfs.InjectFunc { return vfs.FailFrom(k, syscall.EIO, op) })
			add(op, "after it happened", k, func() vfs.InjectFunc {
				return vfs.FailAt(k, &vfs.Fault{Err: syscall.EIO, After: true}, op)
			})
			if op == vfs.OpWrite || op == vfs.OpMapWrite {
				add(op, "short", k, func() vfs.InjectFunc {
					return vfs.FailAt(k, &vfs.Fault{Err: syscall.ENOSPC, Short: true}, op)
				})
			}
		}
	}
	room := counts[vfs.OpCreate] + counts[vfs.OpLink] + counts[vfs.OpMkdirAll] + counts[vfs.OpWrite] + counts[vfs.OpPreallocate]
	for k := int64(1); k <= room; k++ {
		add(vfs.OpWrite, "disk full", k, func() vfs.InjectFunc { return vfs.FullFrom(k, syscall.ENOSPC) })
	}
	return cases
}

// quiet says whether a store need not tell of the fault, because it can do
// without what failed, or does it again.
func (c faultCase) quiet() bool {
	switch c.op {
	case vfs.OpRemove, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpMap, vfs.OpUnmap, vfs.OpClose,
		vfs.OpLink, vfs.OpSyncDir: // those after removals; others are told
		return true
	case vfs.OpRename, vfs.OpOpenReadWrite:
		return true // those of a log to be used again; others are told
	case vfs.OpOpen, vfs.OpStat, vfs.OpRead:
		return c.mode == "after it happened" // a file is not there, or all bytes are
	}
	return false
}

// One operation fails: once, for good, after it happened, or for lack of room
// half way through. No acknowledged write is lost, no answer is wrong, nothing
// hangs or leaks, and the error is told.
func TestFault_AtEveryOperation(t *testing.T) {
	checkLeaks(t)
	seed := testenv.Seed(t)
	h := newHistory("a", seed, 400)
	h.ingestible(faultIngest)
	share := shareOf(t, seed, 1./120)
	// If not all faults are tried, they are in lives with several options.
	lives := uint64(1)
	if share.part < 1 {
		lives = 4
		share.part /= 4
	}
	var cases []faultCase
	tried, rebuilt, ingested := 0, 0, false
	for life := range lives {
		dry := newFaultLife(h, seed+life, false)
		if err := errors.Join(dry.run(), dry.end(endReopen, vfs.CrashConfig{})); err != nil || len(dry.heard()) > 0 {
			t.Fatalf("without faults: %v, %v; %s", err, dry.heard(), optionsText(&dry.opts))
		}
		rebuilt += dry.rebuilt
		ingested = ingested || dry.ingested
		counts := make(map[vfs.Op]int64)
		for _, op := range faultOps {
			counts[op] = dry.faults.Count(op)
		}
		// Of each operation that there are few of, some are always tried.
		all := faultCases(counts, seed+life)
		tried += len(all)
		for i, c := range all {
			if share.takes(life<<32|uint64(i)) || !testing.Short() && life == 0 && counts[c.op] < 9 && c.ending == i/numEndings%numEndings {
				cases = append(cases, c)
			}
		}
	}
	if lives > 1 && rebuilt == 0 {
		t.Fatal("no filter was rebuilt")
	}
	if !ingested {
		t.Fatal("nothing was ingested")
	}
	begin := time.Now()
	var met atomic.Int64
	sweep(t, cases, func(_ int, c faultCase) error {
		m, err := tryFault(h, c)
		if m {
			met.Add(1)
		}
		return err
	})
	t.Logf("%d of %d faults, in lives of %d options, %d met, in %v; %v", len(cases), tried, lives, met.Load(), time.Since(begin).Round(time.Millisecond), share)
}

// tryFault lives a life with the fault c and tells whether it met it.
func tryFault(h history, c faultCase) (met bool, err error) {
	f := newFaultLife(h, c.seed, c.noMap)
	f.inject(c.inject)
	err = f.run()
	met = f.fired.Load() > 0
	if err == nil {
		err = f.end(c.ending, c.crash)
	}
	// Only now, for the background may have been about to tell.
	if met && err == nil && len(f.heard()) == 0 && !c.quiet() && !f.excused.Load() {
		err = errors.New("nobody was told")
	}
	if err != nil {
		err = fmt.Errorf("%w; %s\ntold: %v\nfirst fault: %s", err, optionsText(&f.opts), f.heard(), f.first.Load())
	}
	return met, err
}

// nowAndThen fails one operation of some by chance, those that make manifests
// and names durable more often.
func nowAndThen(seed uint64, i int) faultCase {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	rare, rarer := 6<<r.IntN(6), 1<<r.IntN(5)
	configs := crashConfigs(seed)
	c := faultCase{op: vfs.OpClose, mode: fmt.Sprintf("one in %d or %d", rare, rare*rarer), k: int64(i),
		seed: r.Uint64(), noMap: r.IntN(2) == 0, ending: r.IntN(numEndings), crash: configs[r.IntN(len(configs))]}
	c.inject = func(op vfs.Op, name string, _ int64) error {
		mu.Lock()
		defer mu.Unlock()
		often := op == vfs.OpSyncDir || op == vfs.OpRename || strings.Contains(name, "MANIFEST") || strings.Contains(name, ".tmp")
		if r.IntN(rare) > 0 || !often && r.IntN(rarer) > 0 {
			return nil
		}
		return &vfs.Fault{Err: syscall.EIO, Short: r.IntN(2) == 0, After: r.IntN(3) == 0}
	}
	return c
}

// Operations fail now and then, several in a life. With SHALE_LONG there are as
// many lives as that time allows.
func TestFault_NowAndThen(t *testing.T) {
	checkLeaks(t)
	seed := testenv.Seed(t)
	h := newHistory("a", seed, 400)
	h.ingestible(faultIngest)
	n, begin, long := 120, time.Now(), testenv.Long(t)
	if testing.Short() {
		n = 40
	}
	if testenv.Race {
		n = 20
	}
	var met atomic.Int64
	lives := 0
	for ; (lives == 0 || time.Since(begin) < long) && !t.Failed(); lives += n {
		cases := make([]faultCase, n)
		for i := range cases {
			cases[i] = nowAndThen(seed, lives+i)
		}
		sweep(t, cases, func(_ int, c faultCase) error {
			m, err := tryFault(h, c)
			if m {
				met.Add(1)
			}
			return err
		})
	}
	t.Logf("%d lives, %d with faults, in %v", lives, met.Load(), time.Since(begin).Round(time.Millisecond))
}
