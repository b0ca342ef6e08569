package shale

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/vfs"
)

// A faultCase is one fault.
type faultCase struct {
	op     vfs.Op
	mode   string
	k      int64
	inject vfs.InjectFunc
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s, operation %d of kind %q", c.mode, c.k, c.op)
}

// faultOps are the operations that a script is failed at.
var faultOps = []vfs.Op{
	vfs.OpCreate, vfs.OpOpen, vfs.OpOpenReadWrite, vfs.OpRename, vfs.OpRemove, vfs.OpLink, vfs.OpMkdirAll,
	vfs.OpList, vfs.OpStat, vfs.OpLock, vfs.OpSyncDir, vfs.OpRead, vfs.OpWrite, vfs.OpSync, vfs.OpTruncate,
	vfs.OpPreallocate, vfs.OpMap, vfs.OpMapWrite, vfs.OpUnmap, vfs.OpClose,
}

// faultCases returns the faults to try: of each kind of operation at most most,
// evenly spread from the first to the last.
func faultCases(counts map[vfs.Op]int64, most int64) []faultCase {
	var cases []faultCase
	for _, op := range faultOps {
		step := max(1, (counts[op]+most-1)/most)
		for k := int64(1); k <= counts[op]; k += step {
			cases = append(cases,
				faultCase{op, "once", k, vfs.FailAt(k, syscall.EIO, op)},
				faultCase{op, "for good", k, vfs.FailFrom(k, syscall.EIO, op)},
				faultCase{op, "after it happened", k, vfs.FailAt(k, &vfs.Fault{Err: syscall.EIO, After: true}, op)})
			if op == vfs.OpWrite || op == vfs.OpMapWrite {
				cases = append(cases, faultCase{op, "short", k, vfs.FailAt(k, &vfs.Fault{Err: syscall.ENOSPC, Short: true}, op)})
			}
		}
	}
	room := counts[vfs.OpCreate] + counts[vfs.OpLink] + counts[vfs.OpMkdirAll] + counts[vfs.OpWrite] + counts[vfs.OpPreallocate]
	for k := int64(1); k <= room; k += max(1, room/(2*most)) {
		cases = append(cases, faultCase{vfs.OpWrite, "disk full", k, vfs.FullFrom(k, syscall.ENOSPC)})
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
	seed := seedOf(t)
	h := newHistory("a", seed, 400)
	counts := make(map[vfs.Op]int64)
	dry := newFaultLife(h)
	if err := errors.Join(dry.run(), dry.end(endReopen, vfs.CrashConfig{})); err != nil || len(dry.heard()) > 0 {
		t.Fatalf("without faults: %v, %v", err, dry.heard())
	}
	for _, op := range faultOps {
		counts[op] = dry.faults.Count(op)
	}
	most := int64(9)
	switch {
	case longRun(t) > 0:
		most = 1 << 40
	case testing.Short() && raceEnabled:
		most = 2
	case testing.Short():
		most = 4
	}
	begin, fired := time.Now(), 0
	cases := faultCases(counts, most)
	for i, c := range cases {
		if tryFault(t, h, c, i, seed) {
			fired++
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d faults, %d met, in %v", len(cases), fired, time.Since(begin).Round(time.Millisecond))
}

// tryFault lives a life with the fault c and tells whether it met it. i chooses
// the ending and the options.
func tryFault(t *testing.T, h history, c faultCase, i int, seed uint64) (met bool) {
	configs := vfs.CrashConfigs(seed)
	f := newFaultLife(h)
	// Each mode meets each ending: there are as many of the one as of the other.
	ending := (i + i/numEndings) % numEndings
	f.opts.testing.noMap = i/7%2 == 1
	what := fmt.Sprintf("%v, without mapping %v, ending %d", c, f.opts.testing.noMap, ending)
	within(t, 60*time.Second, what, func() {
		f.inject(c.inject)
		err := f.run()
		met = f.fired.Load() > 0
		if met && err == nil && len(f.heard()) == 0 && !c.quiet() && !f.excused.Load() {
			err = errors.New("nobody was told")
		}
		if err == nil {
			err = f.end(ending, configs[i%len(configs)])
		}
		if err != nil {
			t.Errorf("%s: %v\ntold: %v", what, err, f.heard())
		}
	})
	return met
}

// nowAndThen fails one operation of some by chance, those that make manifests
// and names durable more often.
func nowAndThen(seed uint64, i int) faultCase {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, uint64(i)))
	rare, rarer := 6<<r.IntN(6), 1<<r.IntN(5)
	return faultCase{vfs.OpClose, fmt.Sprintf("one in %d or %d", rare, rare*rarer), int64(i), func(op vfs.Op, name string, _ int64) error {
		mu.Lock()
		defer mu.Unlock()
		often := op == vfs.OpSyncDir || op == vfs.OpRename || strings.Contains(name, "MANIFEST") || strings.Contains(name, ".tmp")
		if r.IntN(rare) > 0 || !often && r.IntN(rarer) > 0 {
			return nil
		}
		return &vfs.Fault{Err: syscall.EIO, Short: r.IntN(2) == 0, After: r.IntN(3) == 0}
	}}
}

// Operations fail now and then, several in a life. With SHALE_LONG there are as
// many lives as that time allows.
func TestFault_NowAndThen(t *testing.T) {
	checkLeaks(t)
	seed := seedOf(t)
	h := newHistory("a", seed, 400)
	n, begin, long, met := 120, time.Now(), longRun(t), 0
	if testing.Short() {
		n = 40
	}
	i := 0
	for ; (i < n || time.Since(begin) < long) && !t.Failed(); i++ {
		if tryFault(t, h, nowAndThen(seed, i), i, seed) {
			met++
		}
	}
	t.Logf("%d lives, %d with faults, in %v", i, met, time.Since(begin).Round(time.Millisecond))
}
