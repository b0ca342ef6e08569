// Package fault has the operations of disks fail: once, for good, after they happened, or for lack
// of room half way through. No acknowledged write is lost, no answer is wrong, nothing hangs or
// leaks, and the error is reported.
package fault

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
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A faultCase is one fault, and the life that it is for.
type faultCase struct {
	op     vfs.Op
	mode   string
	k      int64
	inject faultfs.InjectFunc
	seed   uint64 // of the life
	noMap  bool
	ending int
	crash  vfs.CrashConfig // if the ending is one
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s, operation %d of kind %q, life %d, without mapping %v, ending %d", c.mode, c.k, c.op, c.seed, c.noMap, c.ending)
}

// faultOps are the operations that a life is failed at.
var faultOps = []vfs.Op{
	vfs.OpCreate, vfs.OpOpen, vfs.OpOpenReadWrite, vfs.OpRename, vfs.OpRemove, vfs.OpLink, vfs.OpMkdirAll,
	vfs.OpList, vfs.OpStat, vfs.OpLock, vfs.OpSyncDir, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate,
	vfs.OpPreallocate, vfs.OpMap, vfs.OpMapWrite, vfs.OpUnmap, vfs.OpClose,
}

// faultCases returns all faults: at each operation of each kind, in each mode, with each ending, in
// lives of the seed.
func faultCases(counts map[vfs.Op]int64, seed uint64) []faultCase {
	var cases []faultCase
	configs := harness.CrashConfigs(seed)
	add := func(op vfs.Op, mode string, k int64, inject func() faultfs.InjectFunc) {
		for ending := range harness.NumEndings {
			i := len(cases)
			cases = append(cases, faultCase{op, mode, k, inject(), seed, i/7%2 == 1, ending, configs[i%len(configs)]})
		}
	}
	for _, op := range faultOps {
		for k := int64(1); k <= counts[op]; k++ {
			add(op, "once", k, func() faultfs.InjectFunc { return faultfs.FailAt(k, syscall.EIO, op) })
			add(op, "for good", k, func() faultfs.InjectFunc { return faultfs.FailFrom(k, syscall.EIO, op) })
			add(op, "after it happened", k, func() faultfs.InjectFunc {
				return faultfs.FailAt(k, &faultfs.Fault{Err: syscall.EIO, After: true}, op)
			})
			if op == vfs.OpWrite || op == vfs.OpMapWrite {
				add(op, "short", k, func() faultfs.InjectFunc {
					return faultfs.FailAt(k, &faultfs.Fault{Err: syscall.ENOSPC, Short: true}, op)
				})
			}
		}
	}
	room := counts[vfs.OpCreate] + counts[vfs.OpLink] + counts[vfs.OpMkdirAll] + counts[vfs.OpWrite] + counts[vfs.OpPreallocate]
	for k := int64(1); k <= room; k++ {
		add(vfs.OpWrite, "disk full", k, func() faultfs.InjectFunc { return faultfs.FullFrom(k, syscall.ENOSPC) })
	}
	return cases
}

// quiet reports whether a store need not report the fault, because it can do without what failed, or
// does it again.
func (c faultCase) quiet() bool {
	switch c.op {
	case vfs.OpRemove, vfs.OpTruncate, vfs.OpPreallocate, vfs.OpMap, vfs.OpUnmap, vfs.OpClose,
		vfs.OpLink, vfs.OpSyncDir: // those after removals; others are reported
		return true
	case vfs.OpRename, vfs.OpOpenReadWrite:
		return true // those of a log to be used again; others are reported
	case vfs.OpOpen, vfs.OpStat, vfs.OpList, vfs.OpRead:
		return c.mode == "after it happened" // a file or a directory is not there, or all bytes are
	}
	return false
}

// try lives a life with the fault c, and reports whether it met it.
func try(c faultCase) (met bool, err error) {
	f := harness.NewFaults(c.seed, c.noMap)
	f.Fail(c.inject)
	if err = f.Run(f.Script(c.seed)); err == nil {
		met = f.Fired.Load() > 0
		err = f.End(c.ending, c.crash)
	}
	// Only now, for the background may have been about to report it.
	if met && err == nil && f.Unheard() && !c.quiet() {
		err = errors.New("nobody was told")
	}
	if err != nil {
		f.Abandon()
		err = fmt.Errorf("%w; %s\ntold: %v\nfirst fault: %s", err, harness.OptionsText(&f.Opts), f.Told(), f.First())
	}
	return met, err
}

// One operation fails in each life.
func TestFault_AtEveryOperation(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	share := testenv.ShareOf(t, seed, 1./240)
	// If not all faults are tried, they are in lives with several options.
	lives := uint64(1)
	if share.Part < 1 {
		lives = 4
		share.Part /= 4
	}
	var cases []faultCase
	tried, rebuilt := 0, 0
	for life := range lives {
		dry := harness.NewFaults(seed+life, false)
		if err := errors.Join(dry.Run(dry.Script(seed+life)), dry.End(harness.EndReopen, vfs.CrashConfig{})); err != nil || len(dry.Told()) > 0 {
			t.Fatalf("without faults: %v, %v; %s", err, dry.Told(), harness.OptionsText(&dry.Opts))
		}
		rebuilt += dry.Rebuilt
		counts := make(map[vfs.Op]int64)
		for _, op := range faultOps {
			counts[op] = dry.Counts[op]
		}
		// Of each operation that there are few of, some are always tried.
		all := faultCases(counts, seed+life)
		tried += len(all)
		for i, c := range all {
			if share.Takes(life<<32|uint64(i)) || !testing.Short() && life == 0 && counts[c.op] < 9 && c.ending == i/harness.NumEndings%harness.NumEndings {
				cases = append(cases, c)
			}
		}
	}
	if lives > 1 && rebuilt == 0 {
		t.Fatal("no filter was rebuilt")
	}
	begin := time.Now()
	met := tryAll(t, cases)
	t.Logf("%d of %d faults, in %d lives with options of their own, %d met, in %v; %v", len(cases), tried, lives, met, time.Since(begin).Round(time.Millisecond), share)
}

// tryAll tries the cases and returns how many faults were met.
func tryAll(t *testing.T, cases []faultCase) int64 {
	var met atomic.Int64
	testenv.Sweep(t, cases, func(_ int, c faultCase) error {
		m, err := try(c)
		if m {
			met.Add(1)
		}
		return err
	})
	return met.Load()
}

// nowAndThen fails one operation of some by chance, those that make manifests and names durable more
// often.
func nowAndThen(seed uint64, i int) faultCase {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	rare, rarer := 6<<r.IntN(6), 1<<r.IntN(5)
	configs := harness.CrashConfigs(seed)
	c := faultCase{op: vfs.OpClose, mode: fmt.Sprintf("one in %d or %d", rare, rare*rarer), k: int64(i),
		seed: r.Uint64(), noMap: r.IntN(2) == 0, ending: r.IntN(harness.NumEndings), crash: configs[r.IntN(len(configs))]}
	c.inject = func(op vfs.Op, name string, _ int64) error {
		mu.Lock()
		defer mu.Unlock()
		often := op == vfs.OpSyncDir || op == vfs.OpRename || strings.Contains(name, "MANIFEST") || strings.Contains(name, ".tmp")
		if r.IntN(rare) > 0 || !often && r.IntN(rarer) > 0 {
			return nil
		}
		return &faultfs.Fault{Err: syscall.EIO, Short: r.IntN(2) == 0, After: r.IntN(3) == 0}
	}
	return c
}

// Operations fail now and then, several in a life. With SHALE_LONG there are as many lives as that
// time allows.
func TestFault_NowAndThen(t *testing.T) {
	testenv.CheckLeaks(t)
	seed := testenv.Seed(t)
	n, begin, long := 120, time.Now(), testenv.Long(t)
	if testing.Short() {
		n = 40
	}
	if testenv.Race {
		n = 20
	}
	var met int64
	lives := 0
	for ; (lives == 0 || time.Since(begin) < long) && !t.Failed(); lives += n {
		cases := make([]faultCase, n)
		for i := range cases {
			cases[i] = nowAndThen(seed, lives+i)
		}
		met += tryAll(t, cases)
	}
	t.Logf("%d lives, %d with faults, in %v", lives, met, time.Since(begin).Round(time.Millisecond))
}
