package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/vfs"
)

// A life is a sequence of logs, each recycling the one before, with what is
// known of them at any moment.
type life struct {
	t   *testing.T
	mem *vfs.Mem
	o   Options
	rng *rand.Rand

	logs   []lifeLog
	states int
}

type lifeLog struct {
	num      base.FileNum
	created  bool // whether Create has returned
	appended []string
	synced   int   // number of records that are durable
	sealed   int64 // length of the sealed log; 0: not sealed
	gone     bool  // whether it may have been recycled
}

// TestCrash_AtEveryOperation crashes at each operation, and lets the crash do anything to
// bytes and names that are not synced. Read then finds a prefix of the records with all
// synced ones, and nothing that looks like damage.
func TestCrash_AtEveryOperation(t *testing.T) {
	testenv.SkipRace(t)
	seed := uint64(1)
	states, ops, every := 0, 0, 3
	switch {
	case testenv.Long(t) > 0:
		every = 1
	case testing.Short():
		every = 9
	}
	for _, noMap := range []bool{false, true} {
		for _, pages := range []int{0, 4, 40} {
			t.Run(fmt.Sprintf("noMap=%v/pages=%d/seed=%d", noMap, pages, seed), func(t *testing.T) {
				l := &life{
					t: t, mem: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 0)),
					o: Options{Prealloc: int64(pages) * pageSize, NoMap: noMap},
				}
				l.o.FS = l.mem
				l.mem.OnOp(func(vfs.Op, string) {
					if ops++; ops%every == 0 {
						l.crash()
					}
				})
				for num := range base.FileNum(3) {
					l.log(num + 1)
				}
				l.mem.OnOp(nil)
				states += l.states
			})
		}
	}
	t.Logf("%d crash states, seed %d", states, seed)
}

// log is the life of one log.
func (l *life) log(num base.FileNum) {
	l.logs = append(l.logs, lifeLog{num: num})
	me := &l.logs[num-1]
	if num > 1 && num%2 == 1 {
		l.o.Recycle = num - 1
		l.logs[num-2].gone = true
	}
	w := mustCreate(l.t, Header{Num: num, StoreID: testStore}, l.o)
	me.created = true
	for range 12 {
		var group []string
		for range 1 + l.rng.IntN(4) {
			size := l.rng.IntN(900)
			if l.rng.IntN(12) == 0 {
				size = l.rng.IntN(2 * blockSize)
			}
			group = append(group, testPayload(l.rng.IntN(9999), size))
		}
		// Before the write, because the write may reach the disk while it is under way.
		me.appended = append(me.appended, group...)
		if _, err := w.AppendBatch(toBytes(group), base.Seq(len(me.appended)), len(group)%2 == 0); err != nil {
			l.t.Fatal(err)
		}
		if l.rng.IntN(3) == 0 {
			n := len(me.appended)
			mustSync(l.t, w)
			me.synced = n
		}
	}
	if num%2 == 0 {
		length, err := w.Seal()
		if err != nil {
			l.t.Fatal(err)
		}
		me.synced, me.sealed = len(me.appended), length
		if err := w.Trim(); err != nil {
			l.t.Fatal(err)
		}
	}
	mustClose(l.t, w)
}

func toBytes(payloads []string) [][]byte {
	var all [][]byte
	for _, p := range payloads {
		all = append(all, []byte(p))
	}
	return all
}

// crash checks the logs in each state that a crash could leave.
func (l *life) crash() {
	for _, c := range vfs.CrashConfigs(uint64(l.states)) {
		c.Journal = l.rng.IntN(2) == 0
		after := l.mem.Crash(c)
		l.states++
		for i := range l.logs {
			if log := &l.logs[i]; !log.gone {
				if err := log.check(after); err != nil {
					l.t.Fatalf("after crash %v: log %d: %v", c, log.num, err)
				}
			}
		}
	}
}

func (l *lifeLog) check(after vfs.FS) error {
	got, res, err := readLog(after, l.num, ReadOptions{Known: -1})
	switch {
	case !l.created && (errors.Is(err, ErrNeverUsed) || errors.Is(err, fs.ErrNotExist)):
		return nil
	case err != nil:
		return err
	case !isPrefix(got, l.appended):
		return fmt.Errorf("%d records that are no prefix of the %d appended", len(got), len(l.appended))
	case len(got) < l.synced:
		return fmt.Errorf("%d records, %d were synced", len(got), l.synced)
	}
	if l.sealed != 0 {
		if !res.Sealed || res.Length != l.sealed {
			return fmt.Errorf("Read = %+v, want it sealed at %d", res, l.sealed)
		}
	}
	// What was recovered is what a second recovery finds, by the length that
	// the first one wrote down.
	again, res2, err := readLog(after, l.num, ReadOptions{Known: res.Length})
	if err != nil || !isPrefix(again, got) || len(again) != len(got) || res2.Length != res.Length || res2.LastSeq != res.LastSeq {
		return fmt.Errorf("second Read = %+v, %v, want %+v", res2, err, res)
	}
	return nil
}
