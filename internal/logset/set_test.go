package logset

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/smalldisk"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
	"github.com/shaledb/shale/wal"
)

// A logWorld stands for the store in tests of a Set.
type logWorld struct {
	t       *testing.T
	mem     *vfs.Mem
	nextNum base.FileNum
	noted   []base.FileNum // logs that the manifest was told of
	noteErr error

	removed []string
	*Set
}

func newLogWorld(t *testing.T) *logWorld {
	w := &logWorld{t: t, mem: vfs.NewMem(), nextNum: 1}
	if err := w.mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	w.Set = New(Env{
		FS: w.mem, Dir: "d", MemtableSize: 64 << 10, MinPrepared: 1,
		NewFileNum: func() base.FileNum { w.nextNum++; return w.nextNum - 1 },
		Note: func(num base.FileNum, _ *manifest.SealedLog) error {
			w.noted = append(w.noted, num)
			return w.noteErr
		},
		Remove: func(names ...string) { w.removed = append(w.removed, names...) },
		Freed:  func() uint64 { return 0 },
		NoRoom: func(string, uint64, error) bool { return false },
		Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
	})
	return w
}

// rotate seals the current log, if there is one, and begins the next.
func (w *logWorld) rotate() base.FileNum {
	w.t.Helper()
	h := wal.Header{}
	if old := w.current.Load(); old != nil {
		sealed, err := w.Seal(7)
		if err != nil {
			w.t.Fatal(err)
		}
		h = wal.Header{Prev: sealed.Num, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}
		defer old.Close()
	}
	if err := w.Begin(h); err != nil {
		w.t.Fatal(err)
	}
	return w.Rotated()
}

// Two of the logs that tables have made obsolete are kept, and the next logs use them again.
func TestSet_Recycles(t *testing.T) {
	w := newLogWorld(t)
	var nums []base.FileNum
	for range 5 {
		nums = append(nums, w.rotate())
	}
	w.env.Remove(w.DropBelow(nums[4])...)
	if want := []string{base.LogName(nums[2]), base.LogName(nums[3])}; !slices.Equal(w.removed, want) || len(w.recyclable) != 2 {
		t.Errorf("removed %q, want %q; kept %v", w.removed, want, w.recyclable)
	}
	w.rotate()
	if len(w.recyclable) != 1 {
		t.Errorf("the next log took none of those kept: %v", w.recyclable)
	}
	if !w.GiveUp() || len(w.recyclable) > 0 || w.GiveUp() {
		t.Errorf("the room of %v is not given back once", w.recyclable)
	}
	if !slices.Equal(w.noted[:5], nums) {
		t.Errorf("the manifest was told of %v, want %v", w.noted, nums)
	}
}

// A held log keeps its name until it is released. A
// log that a checkpoint shares is never written over.
func TestSet_Holds(t *testing.T) {
	w := newLogWorld(t)
	first, second := w.rotate(), w.rotate()
	held := w.Hold([]manifest.LogInfo{{Num: first, Sealed: true}, {Num: second}, {Num: 99, Sealed: true}})
	if len(held) != 1 || held[0].Num != first {
		t.Fatalf("held %v, want log %d", held, first)
	}
	shared := w.Share()
	if !slices.Equal(shared, []base.FileNum{first}) {
		t.Fatalf("shared %v", shared)
	}
	third := w.rotate()
	w.env.Remove(w.DropBelow(third)...)
	w.Release([]base.FileNum{first})
	if name := base.LogName(first); slices.Contains(w.removed, name) {
		t.Errorf("%s is removed while a checkpoint holds it", name)
	}
	w.Release(shared)
	if !slices.Contains(w.removed, base.LogName(first)) || slices.Contains(w.recyclable, first) {
		t.Errorf("the shared log is not removed: removed %q, kept %v", w.removed, w.recyclable)
	}
	if w.IsLive(first) || !w.IsLive(third) {
		t.Error("isLive is wrong")
	}
}

// A rotation that could not begin the next log seals the
// old one only once, and the next try continues from there.
func TestSet_RotationFails(t *testing.T) {
	w := newLogWorld(t)
	first := w.rotate()
	w.noteErr = errors.New("no manifest")
	sealed, err := w.Seal(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin(wal.Header{Prev: first, PrevLen: sealed.Length}); !errors.Is(err, w.noteErr) {
		t.Errorf("begin = %v", err)
	}
	if again, err := w.Seal(8); again != sealed || err != nil || w.CurrentNum() != first {
		t.Errorf("seal again = %v, %v; current %d", again, err, w.CurrentNum())
	}
	w.noteErr = nil
	if w.rotate(); w.sealed != nil || w.CurrentNum() == first {
		t.Errorf("afterwards log %d is current, sealed %v", w.CurrentNum(), w.sealed)
	}
}

// The next log is prepared when the memtable is half full, once.
func TestSet_Prepares(t *testing.T) {
	w := newLogWorld(t)
	w.rotate()
	w.Ask(32 << 10)
	if len(w.wake) > 0 {
		t.Error("half a memtable asks for the next log already")
	}
	w.Ask(32<<10 + 1)
	w.Ask(64 << 10)
	if len(w.wake) != 1 {
		t.Fatal("more than half a memtable does not ask for the next log")
	}
	w.prepare()
	w.prepare()
	prepared := w.prepared.Num()
	if num := w.rotate(); num != prepared || w.prepared != nil || w.asked {
		t.Errorf("log %d begins, %d was prepared", num, prepared)
	}
}

// files lists the logs in the directory.
func (w *logWorld) files() []string {
	names, err := w.mem.List("d")
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// A log that is in the making has taken room on the disk, but is not in the set yet. GiveUp waits for
// it and gives its room back. Nobody prepares another one before the next rotation.
func TestGiveUp_TheLogInTheMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLogWorld(t)
		first := w.rotate()
		goOn := make(chan bool)
		w.env.FS = faultfs.New(w.mem, func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpSync { // the blocks are reserved
				<-goOn
			}
			return nil
		})
		w.Ask(w.env.MemtableSize)
		go w.prepare()
		synctest.Wait()
		if len(w.files()) != 2 {
			t.Fatalf("no log is in the making: %q", w.files())
		}
		given := false
		go func() {
			if !w.GiveUp() {
				t.Error("nothing was given up")
			}
			given = true
		}()
		synctest.Wait()
		if given {
			t.Error("GiveUp does not wait for the log in the making")
		}
		close(goOn)
		synctest.Wait()
		if prepared, _ := w.Spare(); !given || prepared || !slices.Equal(w.files(), []string{base.LogName(first)}) {
			t.Errorf("GiveUp has returned: %v; prepared %v, files %q", given, prepared, w.files())
		}
		w.prepare() // Loop was woken before GiveUp, and was late
		if len(w.files()) != 1 {
			t.Errorf("the room is taken again: %q", w.files())
		}
		w.rotate()
		w.Ask(w.env.MemtableSize)
		if w.prepare(); w.prepared == nil {
			t.Error("no log is prepared after a rotation")
		}
	})
}

// A log whose preparation ends after the rotation that it was meant for comes too late: its number is
// too low. It is removed at once, and the next one is prepared in its turn.
func TestPrepare_TooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLogWorld(t)
		first := w.rotate()
		goOn := make(chan bool, 1)
		w.env.FS = faultfs.New(w.mem, func(op vfs.Op, name string, _ int64) error {
			if op == vfs.OpSync && name == w.path(first+1) {
				<-goOn
			}
			return nil
		})
		w.Ask(w.env.MemtableSize)
		go w.prepare()
		synctest.Wait()
		second := w.rotate()
		goOn <- true
		synctest.Wait()
		if want := []string{base.LogName(first), base.LogName(second)}; !slices.Equal(w.files(), want) {
			t.Errorf("files %q, want %q", w.files(), want)
		}
		w.Ask(w.env.MemtableSize)
		if w.prepare(); w.prepared == nil {
			t.Error("the next log is not prepared")
		}
	})
}

// What sealed logs have reserved behind their ends is given back, but for those that a checkpoint
// shares; so is what the current log has, once it is sealed, if there is no room for the next.
func TestGiveUp_TheRestOfSealedLogs(t *testing.T) {
	w := newLogWorld(t)
	disk := smalldisk.New(w.mem, 1<<20)
	w.env.FS, w.env.MemtableSize = disk, 256<<10
	prepared := func() base.FileNum {
		w.Ask(w.env.MemtableSize)
		w.prepare()
		return w.rotate()
	}
	blocks := func(num base.FileNum) int64 { return disk.Files()[w.path(num)] }
	w.rotate()
	shared := prepared()
	w.append(7, "a")
	second := prepared()
	w.Share()
	w.append(7, "b")
	w.HoldFrom(second)
	third := prepared()
	w.append(7, "c")
	fourth := w.rotate()
	w.env.Remove(w.DropBelow(third)...)
	if n := blocks(second); n < 64 || blocks(shared) != n || blocks(third) != n {
		t.Fatalf("blocks before: %v", disk.Files())
	}
	if !w.GiveUp() || w.GiveUp() {
		t.Error("the room is not given back once")
	}
	if blocks(second) != 2 || blocks(third) != 2 || blocks(shared) < 64 {
		t.Errorf("blocks after: %v", disk.Files())
	}
	w.append(7, "d")
	fifth := prepared()
	used, _, _ := disk.Usage()
	disk.Resize(used)
	sixth := w.rotate()
	if blocks(fourth) < 2 || blocks(fifth) != 2 || blocks(sixth) < 2 {
		t.Errorf("the next log has no room: %v", disk.Files())
	}
	// Logs without their rest are whole.
	_, _, records, err := w.replayed(&manifest.State{MinLog: shared})
	if want := []string{"a", "b", "c", "d"}; err != nil || len(records) != len(want) {
		t.Errorf("%q, %v; want %q", records, err, want)
	}
}

// append writes a record to the current log.
func (w *logWorld) append(last base.Seq, payload string) {
	w.t.Helper()
	if err := w.Append([][]byte{[]byte(payload)}, last, true); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Current().Sync(); err != nil {
		w.t.Fatal(err)
	}
}

// replayed opens the logs of w in a new set, as Open does, and returns the records.
func (w *logWorld) replayed(state *manifest.State) (next *logWorld, r Replayed, records []string, err error) {
	next = newLogWorld(w.t)
	next.env.FS = w.mem
	r, err = next.Replay(state, ReplayOptions{Apply: func(log base.FileNum, payload []byte) error {
		records = append(records, fmt.Sprintf("%d:%s", log, payload))
		return nil
	}})
	return next, r, records, err
}

// The logs are read in the order in which they were written, whether or
// not the manifest names them. The next log continues where they end.
func TestSet_Replay(t *testing.T) {
	w := newLogWorld(t)
	first := w.rotate()
	w.append(3, "a")
	w.append(5, "b")
	second := w.rotate()
	w.append(9, "c")
	if err := w.Current().Close(); err != nil {
		t.Fatal(err)
	}
	state := &manifest.State{MinLog: first}
	_, r, records, err := w.replayed(state)
	if want := []string{"1:a", "1:b", "2:c"}; err != nil || !slices.Equal(records, want) {
		t.Fatalf("%q, %v; want %q", records, err, want)
	}
	if r.LastSeq != 9 || r.HighestNum != second || r.Header.Prev != second || r.Header.PrevSeq != 9 || r.Header.PrevLen <= 0 {
		t.Errorf("replayed %+v", r)
	}
	if len(state.Logs) != 2 || state.Logs[0].LastSeq != 5 || !state.Logs[1].Sealed || state.Logs[1].Length != r.Header.PrevLen {
		t.Errorf("the manifest is told of %+v", state.Logs)
	}
	for _, forget := range []bool{false, true} { // the manifest says that the logs before are not needed
		next, r, _, err := w.replayed(&manifest.State{MinLog: first})
		if err != nil {
			t.Fatal(err)
		}
		next.nextNum = r.HighestNum + 1
		wanted := 3
		if forget {
			next.Place()
			next.Forget()
			wanted = 1
		}
		if err = next.Begin(r.Header); err != nil {
			t.Fatal(err)
		}
		if next.Count() != wanted || next.IsLive(first) == forget || next.CurrentNum() != r.HighestNum+1 {
			t.Errorf("%d logs are live after log %d, want %d", next.Count(), next.CurrentNum(), wanted)
		}
		if err := errors.Join(next.Current().Close(), w.mem.Remove(w.path(r.HighestNum+1))); err != nil {
			t.Error(err)
		}
	}
}

// If a log between two others is missing, that is damage. The same is true of
// a log that the manifest names. A missing log below MinLog does not matter.
func TestSet_ReplayMissing(t *testing.T) {
	w := newLogWorld(t)
	var nums []base.FileNum
	for i := range 3 {
		nums = append(nums, w.rotate())
		w.append(base.Seq(10*i+8), "x")
	}
	if err := w.Current().Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.mem.Remove(w.path(nums[1])); err != nil {
		t.Fatal(err)
	}
	var damage *base.CorruptionError
	if _, _, _, err := w.replayed(&manifest.State{MinLog: nums[0]}); !errors.As(err, &damage) || damage.File != base.LogName(nums[1]) {
		t.Errorf("without the second of three logs: %v", err)
	}
	named := &manifest.State{MinLog: nums[0], Logs: []manifest.LogInfo{{Num: nums[2] + 1}}}
	if _, _, _, err := w.replayed(named); !errors.As(err, &damage) {
		t.Errorf("without a log that the manifest names: %v", err)
	}
	if _, _, records, err := w.replayed(&manifest.State{MinLog: nums[2]}); err != nil || len(records) != 1 {
		t.Errorf("%q, %v; want the last log", records, err)
	}
}

// A log that is held from its number on is neither used again nor removed when it is obsolete, nor when
// the disk is full, until a higher number is held from. So is one that an earlier process has left.
func TestHoldFrom_KeepsLogs(t *testing.T) {
	w := newLogWorld(t)
	var nums []base.FileNum
	for range 5 {
		nums = append(nums, w.rotate())
	}
	w.HoldFrom(nums[1])
	drop := func(below base.FileNum) {
		t.Helper()
		w.env.Remove(w.DropBelow(below)...)
	}
	drop(nums[3])
	if _, kept := w.Spare(); kept != 1 || len(w.removed) != 0 {
		t.Fatalf("%d logs to be used again, removed %v", kept, w.removed)
	}
	w.GiveUp()
	if want := []string{base.LogName(nums[0])}; !slices.Equal(w.removed, want) {
		t.Fatalf("removed %v, want %v", w.removed, want)
	}
	held := w.Hold([]manifest.LogInfo{{Num: nums[3], Sealed: true}})
	w.HoldFrom(nums[2])
	drop(nums[4])
	w.HoldFrom(nums[4])
	want := []string{base.LogName(nums[0]), base.LogName(nums[1]), base.LogName(nums[2])}
	if !slices.Equal(w.removed, want) {
		t.Fatalf("removed %v, want %v", w.removed, want)
	}
	if w.Adopt(nums[0]) {
		t.Error("a log below the number is adopted")
	}
	left := nums[4] + 100
	if !w.Adopt(left) || w.IsLive(left) {
		t.Error("a log from the number on is not adopted")
	}
	w.HoldFrom(0)
	if want = append(want, base.LogName(left)); !slices.Equal(w.removed, want) {
		t.Fatalf("removed %v, want %v", w.removed, want)
	}
	w.Release([]base.FileNum{held[0].Num})
	if want = append(want, base.LogName(nums[3])); !slices.Equal(w.removed, want) {
		t.Fatalf("removed %v, want %v", w.removed, want)
	}
}

// Logs that are kept to be used again go when room is given up, whatever number logs are held from since.
func TestHoldFrom_LeavesSpareLogsAlone(t *testing.T) {
	w := newLogWorld(t)
	var nums []base.FileNum
	for range 3 {
		nums = append(nums, w.rotate())
	}
	w.env.Remove(w.DropBelow(nums[2])...)
	if _, kept := w.Spare(); kept != 2 || len(w.removed) != 0 {
		t.Fatalf("%d logs to be used again, removed %v", kept, w.removed)
	}
	w.HoldFrom(nums[0])
	if !w.GiveUp() {
		t.Error("nothing is given up")
	}
	if want := []string{base.LogName(nums[0]), base.LogName(nums[1])}; !slices.Equal(w.removed, want) {
		t.Errorf("removed %v, want %v", w.removed, want)
	}
	if w.GiveUp() {
		t.Error("there is something to give up once more")
	}
}
