package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/smalldisk"
	"github.com/shaledb/shale/internal/testenv"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A store lives on a disk of each size, from none up, with a log that is
// mapped, written by calls, or not reserved: it is opened, written until the disk
// is full, closed and opened again on the full disk, and goes on by itself on a
// larger one. What was acknowledged is there all the time; a failed Open leaves
// nothing behind.
func TestSmallDisk_EverySize(t *testing.T) {
	testenv.SkipRace(t)
	every := int64(18)
	switch {
	case testenv.Long(t) > 0:
		every = 1
	case testing.Short():
		every = 27
	}
	seed := testenv.Seed(t)
	for mode := range int64(3) {
		t.Run([]string{"mapped", "unmapped", "unreserved"}[mode], func(t *testing.T) {
			opened := int64(0)
			for blocks := int64(0); blocks < 100; blocks++ {
				if blocks > 12 && blocks%every != mode%every {
					continue
				}
				l := &smallLife{t: t, singleWriter: newSingleWriter(), blocks: blocks, mem: vfs.NewMem(), mode: int(mode)}
				l.live(seed)
				if l.opened && opened == 0 {
					opened = blocks
				}
				if t.Failed() {
					t.Fatalf("on a disk of %d blocks; %s", blocks, harness.OptionsText(&l.opts))
				}
			}
			if opened > 5 {
				t.Errorf("a store opens from %d blocks up, want 5 at most", opened)
			}
		})
	}
}

// A smallLife is the life of a store on a disk of a few blocks.
type smallLife struct {
	*singleWriter
	t        *testing.T
	blocks   int64
	mem      *vfs.Mem
	disk     *smalldisk.Disk
	mode     int
	opts     shale.Options
	refusals refusals
	opened   bool
}

// open opens the store, or checks that an attempt that failed left nothing behind.
func (l *smallLife) open() bool {
	l.t.Helper()
	before := l.files()
	db, err := shale.Open("parent/db", &l.opts)
	if err == nil {
		l.db = db
		return true
	}
	if !errors.Is(err, syscall.ENOSPC) {
		l.t.Errorf("Open: %v, want ENOSPC", err)
	}
	wantNoOpenFiles(l.t, l.mem)
	if after := l.files(); !slices.Equal(kinds(after), kinds(before)) {
		l.t.Errorf("a failed Open has left %q, there was %q", after, before)
	}
	return false
}

// files lists the files and directories.
func (l *smallLife) files() []string {
	names, err := l.mem.List(".")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, dir := range []string{"parent", "parent/db"} {
		inside, err := l.mem.List(dir)
		if err != nil {
			break
		}
		names = append(names, inside...)
	}
	return names
}

// kinds leaves out the numbers of manifests: one may take the place of another.
func kinds(names []string) []string {
	var all []string
	for _, name := range names {
		if typ, _, ok := base.ParseFileName(name); ok && typ == base.FileManifest {
			name = "MANIFEST"
		}
		all = append(all, name)
	}
	return all
}

func (l *smallLife) live(seed uint64) {
	t := l.t
	testenv.CheckLeaks(t)
	l.disk = smalldisk.New(l.mem, l.blocks)
	l.disk.Unreserved = l.mode == 2
	l.opts = harness.DrawSeeded(l.disk, seed, uint64(l.blocks))
	l.opts.CompactionWorkers = max(l.opts.CompactionWorkers, 1)
	*harness.KnobsOf(&l.opts).NoMap = l.mode == 1
	l.opts.OnEvent = func(e shale.Event) { l.refusals.note(t, e) }
	if l.open() {
		l.opened = true
		l.fillUp()
		l.check(t)
		if err := l.db.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close: %v", err)
		}
		wantNoOpenFiles(t, l.mem)
		l.refusals = refusals{}
	}
	if !l.open() {
		l.disk.Resize(l.blocks + 60)
		if !l.open() {
			t.Fatal("Open with room fails")
		}
	}
	l.check(t)
	l.fillUp()
	l.disk.Resize(l.blocks + 400)
	shale.ShippingOf(l.db).HoldLogs(0) // logs that are held take their room for good
	l.goOn(t, 50)
	if err := l.db.Compact(context.Background(), shale.Range{}); err != nil {
		t.Errorf("Compact with room: %v\nblocks: %v\n%v", err, l.disk.Files(), l.db.Inspect().RecentEvents())
	}
	if l.db.Err() != nil || l.refusals.refused() {
		t.Errorf("Err = %v with room, refused %v", l.db.Err(), l.refusals.refused())
	}
	if err := harness.Strays(l.db, l.mem, "parent/db"); err != nil {
		t.Error(err)
	}
	l.check(t)
	harness.WantClose(t, l.db)
	if !l.open() {
		t.Fatal("Open with room fails")
	}
	l.check(t)
	harness.WantClose(t, l.db)
}

// fillUp writes until the disk is full.
func (l *smallLife) fillUp() {
	l.t.Helper()
	if err := l.fill(1500); err != nil && (!errors.Is(err, shale.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC)) {
		l.t.Errorf("Write on a full disk: %v, want ErrReadOnly with ENOSPC", err)
	}
}

// A store on a disk that is full but for some blocks takes deletes, and gives the
// space of what was deleted back.
func TestSmallDisk_DeletesMakeRoom(t *testing.T) {
	testenv.CheckLeaks(t)
	disk := smalldisk.New(vfs.NewMem(), 1<<20)
	opts := shale.Options{FS: disk, OnEvent: func(shale.Event) {}}
	db, err := shale.Open("db", &opts)
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	key := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	for i := range n {
		b := new(shale.Batch)
		if err := errors.Join(b.Put(key(i), make([]byte, 1000)), db.Write(context.Background(), b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(context.Background(), shale.Range{}); err != nil {
		t.Fatal(err)
	}
	harness.WantClose(t, db)
	full, _, _ := disk.Usage()
	disk.Resize(full + 40)
	if db, err = shale.Open("db", &opts); err != nil {
		t.Fatal(err)
	}
	b := new(shale.Batch)
	for i := range n {
		if err := b.Delete(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(context.Background(), b); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if err := db.Compact(context.Background(), shale.Range{}); err != nil {
		t.Errorf("Compact: %v", err)
	}
	harness.WantClose(t, db)
	if used, _, _ := disk.Usage(); used > 20 {
		t.Errorf("%d blocks are in use after all was deleted, %d before", used, full)
	}
}

// An empty store takes little of the disk, and so do many; one with few writes not
// much more.
func TestSmallDisk_EmptyStores(t *testing.T) {
	disk := smalldisk.New(vfs.NewMem(), 1<<30)
	var stores []*shale.DB
	const n = 30
	used := func() int64 { blocks, _, _ := disk.Usage(); return blocks * smalldisk.Block }
	for i := range n {
		db, err := shale.Open(fmt.Sprint("db", i), &shale.Options{FS: disk, CacheSize: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		stores = append(stores, db)
	}
	if used() > n*100<<10 {
		t.Errorf("%d empty stores take %d bytes, want 100 KiB each at most", n, used())
	}
	const value = 20 << 10
	for i := range 40 {
		for _, db := range stores {
			if err := db.Put(fmt.Append(nil, i), make([]byte, value)); err != nil {
				t.Fatal(err)
			}
		}
		if most := int64(n * (2*(i+2)*value + 200<<10)); used() > most {
			t.Fatalf("%d stores with %d bytes each take %d bytes, want %d at most", n, (i+1)*value, used(), most)
		}
	}
}

// A reserving is a store whose logs reserve a megabyte, on a disk that is taken by somebody else.
type reserving struct {
	*shale.DB
	t    *testing.T
	disk *smalldisk.Disk
	n    int // puts
}

func newReserving(t *testing.T) *reserving {
	testenv.CheckLeaks(t)
	s := &reserving{t: t, disk: smalldisk.New(vfs.NewMem(), 1<<20)}
	db, err := shale.Open("db", &shale.Options{FS: s.disk, MemtableSize: 1 << 20, Durability: shale.SyncManual,
		Compression: shale.NoCompression, CompactionWorkers: -1, OnEvent: func(shale.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	s.DB = db
	return s
}

const reservingEntry = 1100 // bytes that a put takes at most, in a log or in a table

func (s *reserving) put(n int) {
	s.t.Helper()
	for range n {
		err := s.Put(fmt.Appendf(nil, "k%06d", s.n%3000), []byte(strings.Repeat(fmt.Sprint(s.n), 1000)[:1000]))
		if err != nil {
			s.t.Fatalf("Put: %v\nblocks: %v\n%v", err, s.disk.Files(), s.Inspect().RecentEvents())
		}
		s.n++
	}
}

// leaveRoom leaves the disk so much room that all files but the logs fit, and what is said besides: it
// does not matter what the logs take now.
func (s *reserving) leaveRoom(bytes int) {
	blocks := int64(bytes) / smalldisk.Block
	for name, n := range s.disk.Files() {
		if !strings.HasSuffix(name, ".wal") {
			blocks += n
		}
	}
	s.disk.Resize(blocks)
}

// wantFlush flushes and closes the store.
func (s *reserving) wantFlush() {
	s.t.Helper()
	if err := s.Flush(context.Background()); err != nil {
		s.t.Errorf("Flush: %v\nblocks: %v\n%v", err, s.disk.Files(), s.Inspect().RecentEvents())
	}
	if err := s.Err(); err != nil {
		s.t.Error(err)
	}
	harness.WantClose(s.t, s.DB)
}

// littleElse is the room for the next log, of which 64 KiB stay reserved, the index and the filter of a
// table, and what is added to the manifest.
const littleElse = 128 << 10

// What a store has reserved ahead does not keep it from writing and flushing on a
// disk that has room for its tables, the records of its log, and little else. That is
// so too if the program holds logs since some were put aside to be used again.
func TestSmallDisk_GivesUpWhatItHasReserved(t *testing.T) {
	for _, from := range []uint64{0, 1} {
		s := newReserving(t)
		s.put(9000) // until there are logs to be used again
		if err := errors.Join(s.Flush(context.Background()), s.Put([]byte("small"), []byte("v"))); err != nil {
			t.Fatal(err)
		}
		if _, kept := harness.LogsOf(s.DB).Spare(); kept == 0 {
			t.Fatal("no log is kept to be used again")
		}
		shale.ShippingOf(s.DB).HoldLogs(from)
		s.leaveRoom(2*800*reservingEntry + littleElse)
		s.put(800)
		s.wantFlush()
	}
}

// A log that is sealed early, because of a Flush, has most of what was reserved for it behind its end.
// That does not keep the store from beginning the next log and from writing the table.
func TestSmallDisk_GivesUpTheRestOfASealedLog(t *testing.T) {
	for _, spare := range []bool{true, false} { // the next log finds room in a file that is used again, or finds none
		s := newReserving(t)
		logs := harness.LogsOf(s.DB)
		begun := shale.ShippingOf(s.DB).Position().Log
		for shale.ShippingOf(s.DB).Position().Log == begun {
			s.put(1)
			if s.n == 700 { // the log that comes next has all reserved
				testenv.WaitFor(t, "the next log to be prepared", func() bool { prepared, _ := logs.Spare(); return prepared })
			}
		}
		testenv.WaitFor(t, "the flush", func() bool { return logs.Count() == 1 })
		s.put(100)
		if !spare {
			logs.GiveUp()
		}
		s.leaveRoom(2*100*reservingEntry + littleElse)
		s.wantFlush()
	}
}

// Logs that the program holds take their room, and writes are refused when they fill the disk, also after the
// store was opened again. The store goes on by itself when the program lets them go.
func TestSmallDisk_HeldLogsTakeTheirRoom(t *testing.T) {
	testenv.CheckLeaks(t)
	disk := smalldisk.New(vfs.NewMem(), 500)
	opts := shale.Options{FS: disk, MemtableSize: 64 << 10, Shipping: shale.ShippingOptions{HoldLogs: 1}, OnEvent: func(shale.Event) {}}
	var db *shale.DB
	put := func(i int) error { return db.Put([]byte("key"), fmt.Appendf(make([]byte, 0, 1000), "%01000d", i)) }
	n := 0
	for _, blocks := range []int64{500, 600} {
		if db != nil {
			if err := db.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Close: %v", err)
			}
		}
		disk.Resize(blocks)
		var err error
		if db, err = shale.Open("db", &opts); err != nil {
			t.Fatal(err)
		}
		for ; err == nil && n < 10_000; n++ {
			err = put(n)
		}
		if !errors.Is(err, shale.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Put %d beside held logs: %v, want ErrReadOnly with ENOSPC", n, err)
		}
		logs := int64(0)
		for name, blocks := range disk.Files() {
			if strings.HasSuffix(name, ".wal") {
				logs += blocks
			}
		}
		if least := int64(n-2) * 1000 / smalldisk.Block; logs < least { // one write of each opening has failed
			t.Errorf("the logs have %d blocks, want all that was written, %d at least", logs, least)
		}
	}
	shale.ShippingOf(db).HoldLogs(0)
	testenv.WaitFor(t, "writes to go on by themselves", func() bool { return put(n) == nil })
	harness.WantClose(t, db)
}
