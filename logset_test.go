package shale

import (
	"errors"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/memtable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A logWorld is all that a logSet sees of a store.
type logWorld struct {
	t       *testing.T
	mem     *vfs.Mem
	nextNum base.FileNum
	noted   []base.FileNum // logs that the manifest was told of
	noteErr error
	removed []string
	*logSet
}

func newLogWorld(t *testing.T) *logWorld {
	w := &logWorld{t: t, mem: vfs.NewMem(), nextNum: 1}
	if err := w.mem.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	w.logSet = newLogSet(logEnv{
		fs: w.mem, dir: "d", memtable: 64 << 10, minPrepared: 1,
		newFileNum: func() base.FileNum { w.nextNum++; return w.nextNum - 1 },
		note: func(num base.FileNum, _ *manifest.SealedLog) error {
			w.noted = append(w.noted, num)
			return w.noteErr
		},
		remove: func(names ...string) { w.removed = append(w.removed, names...) },
		noRoom: func(string, error) bool { return false },
		failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
	})
	return w
}

// rotate seals the current log, if there is one, and begins the next.
func (w *logWorld) rotate() base.FileNum {
	w.t.Helper()
	h := wal.Header{}
	if old := w.current.Load(); old != nil {
		sealed, err := w.seal(7)
		if err != nil {
			w.t.Fatal(err)
		}
		h = wal.Header{Prev: sealed.Num, PrevLen: sealed.Length, PrevSeq: sealed.LastSeq}
		defer old.Close()
	}
	if err := w.begin(h); err != nil {
		w.t.Fatal(err)
	}
	return w.rotated()
}

// Of the logs that tables have made obsolete two are kept to be used again; the next
// logs take them before any others.
func TestLogSet_Recycles(t *testing.T) {
	w := newLogWorld(t)
	var nums []base.FileNum
	for range 5 {
		nums = append(nums, w.rotate())
	}
	w.remove(w.dropBelow(nums[4])...)
	if want := []string{base.LogName(nums[2]), base.LogName(nums[3])}; !slices.Equal(w.removed, want) || len(w.recyclable) != 2 {
		t.Errorf("removed %q, want %q; kept %v", w.removed, want, w.recyclable)
	}
	w.rotate()
	if len(w.recyclable) != 1 {
		t.Errorf("the next log took none of those kept: %v", w.recyclable)
	}
	if !w.giveUp() || len(w.recyclable) > 0 || w.giveUp() {
		t.Errorf("the room of %v is not given back once", w.recyclable)
	}
	if !slices.Equal(w.noted[:5], nums) {
		t.Errorf("the manifest was told of %v, want %v", w.noted, nums)
	}
}

// A log that somebody holds keeps its name until it is released. One that a checkpoint
// shares is never written over.
func TestLogSet_Holds(t *testing.T) {
	w := newLogWorld(t)
	first, second := w.rotate(), w.rotate()
	held := w.hold([]manifest.LogInfo{{Num: first, Sealed: true}, {Num: second}, {Num: 99, Sealed: true}})
	if len(held) != 1 || held[0].Num != first {
		t.Fatalf("held %v, want log %d", held, first)
	}
	shared := w.share()
	if !slices.Equal(shared, []base.FileNum{first}) {
		t.Fatalf("shared %v", shared)
	}
	third := w.rotate()
	w.remove(w.dropBelow(third)...)
	w.release([]base.FileNum{first})
	if name := base.LogName(first); slices.Contains(w.removed, name) {
		t.Errorf("%s is removed while a checkpoint holds it", name)
	}
	w.release(shared)
	if !slices.Contains(w.removed, base.LogName(first)) || slices.Contains(w.recyclable, first) {
		t.Errorf("the shared log is not removed: removed %q, kept %v", w.removed, w.recyclable)
	}
	if w.isLive(first) || !w.isLive(third) {
		t.Error("isLive is wrong")
	}
}

// A rotation that could not begin the next log seals the old one once only, and the next
// try goes on from there.
func TestLogSet_RotationFails(t *testing.T) {
	w := newLogWorld(t)
	first := w.rotate()
	w.noteErr = errors.New("no manifest")
	sealed, err := w.seal(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.begin(wal.Header{Prev: first, PrevLen: sealed.Length}); !errors.Is(err, w.noteErr) {
		t.Errorf("begin = %v", err)
	}
	if again, err := w.seal(8); again != sealed || err != nil || w.currentNum() != first {
		t.Errorf("seal again = %v, %v; current %d", again, err, w.currentNum())
	}
	w.noteErr = nil
	if w.rotate(); w.sealed != nil || w.currentNum() == first {
		t.Errorf("afterwards log %d is current, sealed %v", w.currentNum(), w.sealed)
	}
}

// The next log is prepared when the memtable is half full, once.
func TestLogSet_Prepares(t *testing.T) {
	w := newLogWorld(t)
	w.rotate()
	pool := memtable.NewPool(64 << 10)
	defer pool.Close()
	mem := memtable.New(memtable.Options{Size: 64 << 10, Pool: pool})
	w.ask(mem)
	if len(w.wake) > 0 {
		t.Error("an empty memtable asks for the next log")
	}
	for seq := base.Seq(1); mem.Taken() <= 32<<10; seq++ {
		mem.BeginWrite()
		mem.Add(seq, base.KindPut, []byte{byte(seq), byte(seq >> 8)}, make([]byte, 100))
		mem.EndWrite()
	}
	w.ask(mem)
	w.ask(mem)
	if len(w.wake) != 1 {
		t.Fatal("half a memtable does not ask for the next log")
	}
	w.prepare()
	w.prepare()
	prepared := w.prepared.Num()
	if num := w.rotate(); num != prepared || w.prepared != nil || w.asked {
		t.Errorf("log %d begins, %d was prepared", num, prepared)
	}
}
