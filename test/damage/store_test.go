// Package damage changes the files of stores in every way that comes to mind. Each answer is right or an
// error that names file and offset; nothing panics, hangs, or goes by unnoticed that matters; and a
// failed Open changes nothing.
package damage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
)

// A badStore is a store with all that a store can have on disk (runs in
// level 0, two levels below, filters next to some tables, a log, a manifest),
// closed or crashed, for tests that damage copies of it.
type badStore struct {
	mem   *vfs.Mem
	end   badEnd
	seed  uint64
	opts  string // that it was written with
	files map[string]string
	log   string // that the last commits are in
	mani  string
	// minLog is the number of the oldest log that the store needs. Older ones may be held.
	minLog base.FileNum

	// states[n] is what the store holds after n commits. After a crash the
	// log's tail may be lost, but not the first safe commits.
	states []harness.State
	safe   int
	// markers[n] is the key that only commit n puts.
	markers []string
	keys    []string // all that were ever written
	// ends[n] is where commit n ends in the last log, if it is there.
	ends map[int]int
}

// badEnd is how a badStore came to its end.
type badEnd int

const (
	closed        badEnd = iota
	crashed              // with unsynced commits
	crashedSynced        // each of the last commits was synced
	numEnds
)

func (e badEnd) String() string {
	return [...]string{"closed", "crashed", "crashed with all synced"}[e]
}

// newBadStore makes nearly the same store for the same seed: one thing at a time. What still
// differs now and then is which of two compactions came first.
func newBadStore(t testing.TB, seed uint64, end badEnd) *badStore {
	t.Helper()
	return newBadStoreOf(t, 77, seed, end)
}

// newBadStoreOf gives the store the identity id: two that differ in nothing
// else have files of the same sizes.
func newBadStoreOf(t testing.TB, id, seed uint64, end badEnd) *badStore {
	t.Helper()
	b := &badStore{end: end, seed: seed, ends: make(map[int]int)}
	if err := b.make(id); err != nil {
		t.Fatal(err)
	}
	b.files = storeFiles(t, b.mem)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if strings.HasPrefix(name, "MANIFEST") {
			b.mani = name
		}
	}
	state, err := manifest.Load(b.mem, harness.Dir)
	if err != nil {
		t.Fatal(err)
	}
	b.minLog = state.MinLog
	return b
}

// make lives the life of the store.
func (b *badStore) make(id uint64) error {
	l := harness.NewLife(b.seed)
	l.Trusting = true // after a refusal the store goes on in another log than b.log
	filterHash, workers, sessions := shale.FilterHash(0), 1, id<<32
	l.Options = func(int) shale.Options {
		o := harness.DrawSeeded(nil, b.seed, 0)
		k := harness.KnobsOf(&o)
		// Only the script flushes, and no log is prepared in the background: its number, and so
		// the bytes of the store, would depend on when that is.
		o.MemtableSize, *k.MinPrepared = 1<<20, 2<<20
		o.SyncEvery = time.Hour // only the script syncs
		o.CompactionWorkers = workers
		o.TableSize, *k.BaseSize = 4<<10, 8<<10 // two levels soon
		*k.Runs = min(*k.Runs, 3)
		o.BlockSize = min(o.BlockSize, 4<<10)
		o.FilterMemory = 0
		if o.FilterBits < 2 {
			o.FilterBits = 10 // the tables are to have filters, and some next to them
		}
		o.Tuning.FilterHash = (o.Tuning.FilterHash + filterHash) % (shale.SipHash + 1)
		*k.Seed = id
		*k.Session = func() uint64 { sessions++; return sessions }
		return o
	}
	s := harness.NewScript(b.seed)
	s.Marked = true
	done := 0
	var failed error
	run := func() { // what was added to the script
		for ; done < len(s.Steps) && failed == nil; done++ {
			failed = l.Do(s.Steps[done])
		}
	}
	deep := func() (n int) {
		for _, level := range l.DB.Metrics().Levels[1:] {
			n += min(level.Tables, 1)
		}
		return n
	}
	if err := l.Open(); err != nil {
		return err
	}
	b.opts = harness.OptionsText(&l.Opts)
	for n := 0; (n < 10 || deep() < 2) && failed == nil; n++ {
		s.Write(16, 0)
		s.Idle() // the reads of these writes may have paid for a compaction
		s.Flush()
		s.Idle()
		run()
	}
	if err := errors.Join(failed, l.Close()); err != nil {
		return err
	}
	filterHash, workers = 1, -1
	if err := l.Open(); err != nil {
		return err
	}
	s.RebuildFilters()
	for range 2 {
		s.Write(20, 0)
		s.Flush()
	}
	run()
	every := 0 // synced
	if b.end == crashedSynced {
		every = 1
	}
	b.log = base.LogName(harness.LogsOf(l.DB).CurrentNum()) // the next one may be there too, prepared
	for i := range 26 {
		if i == 10 {
			s.Sync()
			run()
			b.safe = len(l.Model.Claim().Commits)
		}
		s.Write(1, every)
		run()
		b.ends[len(l.Model.Claim().Commits)-1] = int(harness.LogsOf(l.DB).Current().Len())
	}
	if failed != nil {
		return failed
	}
	if l.DB.Metrics().Levels[0].Runs < 2 || deep() < 2 {
		return fmt.Errorf("the store has not the shape that it should have:\n%v", l.DB.Metrics())
	}
	b.mem = l.Mem.Crash(harness.KeepAll)
	claim := l.Model.Claim()
	if err := l.Close(); err != nil {
		return err
	}
	if b.end == closed {
		b.mem = l.Mem
	}
	b.states = claim.States()
	for _, c := range claim.Commits {
		b.markers = append(b.markers, c.Marker)
		for _, op := range c.Ops {
			b.keys = append(b.keys, string(op.Key))
		}
	}
	slices.Sort(b.keys)
	b.keys = slices.Compact(b.keys)
	return nil
}

// A damage is what is done to a copy of a badStore.
type damage struct {
	what   string
	file   string // that it is done to, and that errors must name
	other  string // another one that they may name
	flip   bool   // a single byte is changed
	oneBit bool   // and of that one bit
	// asUnwritten says that the byte becomes a zero, as are those behind it in its
	// sector, or those around it in its word: a torn write can leave that.
	asUnwritten bool
	foreign     bool // the file is one of another store
	rare        bool // there are few of its kind: each is always tried
	apply       func(mem *vfs.Mem) error
}

func (d damage) String() string { return d.file + ": " + d.what }

// explains returns nil if err is what this damage should give.
func (b *badStore) explains(d damage, err error) error {
	var c *shale.CorruptionError
	switch {
	case errors.As(err, &c):
		if d.flip && c.Offset < 0 {
			return fmt.Errorf("the error names no offset: %w", err)
		}
		if c.File == d.file || c.File == d.other {
			return nil
		}
		if d.file == "CURRENT" && strings.HasPrefix(c.File, "MANIFEST") {
			return nil // it names one that is not there
		}
		if d.file == b.mani && b.end != closed {
			return nil // its last record is taken for torn: then what it told of is missing
		}
		return fmt.Errorf("the error names %s: %w", c.File, err)
	case errors.Is(err, shale.ErrFormatTooNew) && strings.Contains(err.Error(), d.file):
		return nil
	}
	return fmt.Errorf("not a CorruptionError: %w", err)
}

// logPadding is what follows the header of a log up to its first record.
const logPaddingFrom, logPaddingTo = 68, 4096

// mustNotice reports whether the damage must be found by shale.Open, or by Verify at
// the latest. What lies behind the end of a log or manifest is nobody's, as is
// the room behind a log's header, and after a crash the ends may be torn.
func (b *badStore) mustNotice(d damage, damaged map[string]string) bool {
	is, was := damaged[d.file], b.files[d.file]
	if isLog := strings.HasSuffix(d.file, ".wal"); isLog && len(is) == len(was) && len(is) >= logPaddingTo {
		is = is[:logPaddingFrom] + is[logPaddingTo:]
		was = was[:logPaddingFrom] + was[logPaddingTo:]
	}
	if is == was {
		return false
	}
	if d.file == "CURRENT" {
		return !b.saysLess(d, is)
	}
	if isTableOrFilter(d.file) {
		return true
	}
	if kind, num, ok := base.ParseFileName(d.file); ok && kind == base.FileLog && num < b.minLog {
		return false // it is held for another program, and the store does not need it
	}
	return b.end == closed && !strings.HasPrefix(d.what, "longer")
}

// saysLess reports whether a line of CURRENT that another store wrote is true here
// too: it names the same manifest, and of it the end of some record.
func (b *badStore) saysLess(d damage, line string) bool {
	var name string
	var length int64
	if _, err := fmt.Sscanf(line, "shale 1 %s %d", &name, &length); !d.foreign || err != nil || name != b.mani {
		return false
	}
	_, num, _ := base.ParseFileName(name)
	less := false
	sum, err := manifest.ReadEdits(b.mem, harness.Dir, num, func(offset int64, _ *manifest.Edit) error {
		less = less || offset == length
		return nil
	})
	return err == nil && (less || length == sum.Length)
}

// lostEnd is what came of a damage if the last records of the log are missing, and nobody said so.
const lostEnd = "taken for a torn end"

// try opens a copy with the damage and returns what came of it: every answer
// is right or is an error that names the place, and what must be noticed is.
func (b *badStore) try(t testing.TB, d damage, nth int) (outcome string, err error) {
	opts := harness.DrawSeeded(nil, b.seed, 1+uint64(nth))
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; %s; written with %s", err, harness.OptionsText(&opts), b.opts)
		}
	}()
	mem := b.mem.Crash(harness.KeepAll)
	if err := d.apply(mem); err != nil {
		return "", err
	}
	before := storeFiles(t, mem)
	mustNotice, least := b.mustNotice(d, before), b.least(before[b.log])
	opts.FS = mem
	opts.Exist = shale.MustExist // without CURRENT and tables a directory is a new store
	opts.ReadOnly = nth%64 == 63
	var told atomic.Bool // of a filter, say, before its table was compacted away
	opts.OnEvent = func(e shale.Event) {
		if e.Kind == shale.EventFilterUnusable || e.Kind == shale.EventCorruption {
			if err := b.explains(d, e.Err); err != nil {
				t.Errorf("event: %v", err)
			}
			told.Store(true)
		}
	}
	db, err := shale.Open(harness.Dir, &opts)
	if err != nil {
		if n := mem.OpenFiles(); n != 0 {
			return "", fmt.Errorf("%d files are left open by Open: %w", n, err)
		}
		if !maps.Equal(storeFiles(t, mem), before) {
			return "", fmt.Errorf("a failed shale.Open has changed files: %w", err)
		}
		return "refused", b.explains(d, err)
	}
	met, lost, err := b.use(db, d, least, opts.ReadOnly)
	if cerr := db.Close(); err == nil && cerr != nil {
		err = b.explains(d, cerr)
	}
	switch {
	case err != nil:
		return "", err
	case mem.OpenFiles() != 0:
		return "", fmt.Errorf("%d files are left open", mem.OpenFiles())
	case met > 0:
		outcome = "met by reads"
	case met < 0:
		outcome = "found by Verify"
	case told.Load():
		outcome = "told by an event"
	case lost && d.oneBit && !d.asUnwritten && !b.recycledLog():
		return "", errors.New("a flipped bit is taken for a torn end")
	case lost:
		outcome = lostEnd
	case mustNotice && !replaced(mem, b.path(d.file)):
		return "", errors.New("nobody has noticed")
	default:
		outcome = "harmless"
	}
	if opts.ReadOnly || nth%4 > 0 {
		return outcome, nil
	}
	if db, err = shale.Open(harness.Dir, &opts); err != nil {
		return outcome, b.explains(d, err)
	}
	if _, _, err = b.use(db, d, least, false); err != nil {
		err = fmt.Errorf("opened once more: %w", err)
	}
	return outcome, errors.Join(err, db.Close())
}

// recycledLog reports whether the last log was written over an older one, as its header says.
// Nobody knows what stood where it ends now, so that flips there can't be told from a torn end.
func (b *badStore) recycledLog() bool { return b.files[b.log][32]&1 != 0 }

// replaced reports whether a compaction has replaced the table. It may have read
// all entries without meeting the damage.
func replaced(mem *vfs.Mem, name string) bool {
	_, err := mem.Stat(name)
	return err != nil && isTableOrFilter(name)
}

// isTableOrFilter reports whether the file is a table or a filter next to one.
func isTableOrFilter(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".flt")
}

// use reads all in several ways, verifies, and writes. It returns how many
// errors were met by reads, or -1 if only Verify met one, and whether the end of
// the log is lost, which must leave least commits.
func (b *badStore) use(db *shale.DB, d damage, least int, readOnly bool) (met int, lost bool, err error) {
	state := b.states[len(b.states)-1]
	if d.file == b.log && b.end != closed {
		n, err := b.commitsIn(db)
		if n < least || err != nil {
			return 0, false, fmt.Errorf("%d commits are there without a word, want %d at least; %w", n, least, err)
		}
		state, lost = b.states[n], n < len(b.states)-1
	}
	for _, reverse := range []bool{false, true} {
		r := shale.Range{Reverse: reverse}
		got, err := scan(db, r)
		want := slices.Clone(state.Entries())
		if reverse {
			slices.Reverse(want)
		}
		if err != nil {
			met++
			if err := b.explains(d, err); err != nil {
				return 0, false, err
			}
			want = want[:min(len(got), len(want))]
		}
		if err := harness.StateOf(want).Diff(harness.StateOf(got)); err != nil {
			return 0, false, fmt.Errorf("Scan, reverse %v: %w", reverse, err)
		}
	}
	for _, key := range b.keys {
		for _, key := range []string{key, key + "x"} {
			want, there := state.Get(key)
			got, err := db.Get([]byte(key))
			switch {
			case err == nil && (!there || string(got) != want):
				return 0, false, fmt.Errorf("Get(%q) = %.60q; there: %v", key, got, there)
			case errors.Is(err, shale.ErrNotFound) && there:
				return 0, false, fmt.Errorf("Get(%q): %w; it is there", key, err)
			case err != nil && !errors.Is(err, shale.ErrNotFound):
				met++
				if err := b.explains(d, err); err != nil {
					return 0, false, err
				}
			}
		}
	}
	if err := db.Verify(context.Background()); err != nil {
		if err := b.explains(d, err); err != nil {
			return 0, false, fmt.Errorf("Verify: %w", err)
		}
		if met == 0 {
			met = -1
		}
	} else if met > 0 {
		return 0, false, errors.New("reads met damage, Verify did not")
	}
	if !readOnly {
		if err := db.Put([]byte(written), nil); err != nil {
			return 0, false, err
		}
	}
	return met, lost, nil
}

// written is the key that use puts. It is no part of the states.
const written = "written to a damaged store"

// scan returns what Scan yields up to its error.
func scan(db *shale.DB, r shale.Range) (got []harness.Entry, err error) {
	for e, err := range db.Scan(r) {
		if err != nil {
			return got, err
		}
		if string(e.Key) != written {
			got = append(got, harness.EntryOf(shale.Op{Key: e.Key, Value: e.Value, ExpiresAt: e.ExpiresAt}))
		}
	}
	return got, nil
}

// commitsIn returns how many commits a store holds that may have lost the tail
// of its log.
func (b *badStore) commitsIn(db *shale.DB) (int, error) {
	for n := len(b.states) - 1; n > 0; n-- {
		if has, err := db.Has([]byte(b.markers[n-1])); has || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// least returns how many commits must be there, whatever was damaged in the
// last log of a store that crashed, if it opens. The first record damaged and
// those behind it may be taken for a torn end; but a whole record behind the
// damage shows that it was synced before.
func (b *badStore) least(is string) int {
	was := b.files[b.log]
	first, last := 0, len(was)
	for first < min(len(is), len(was)) && is[first] == was[first] {
		first++
	}
	for len(is) == len(was) && last > first && is[last-1] == was[last-1] {
		last--
	}
	all := len(b.states) - 1
	least := all
	for b.ends[least-1] > first {
		least--
	}
	if last <= b.ends[all-2] {
		least = max(least, b.safe)
	}
	return least
}

func (b *badStore) path(name string) string { return filepath.Join(harness.Dir, name) }
