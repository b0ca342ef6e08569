package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/wal"
)

// A survey is what CURRENT, the manifests and the names of files say about a store, and all
// findings so far. Check and Run begin with it.
type survey struct {
	ctx context.Context
	fs  *source
	dir string

	salvaged *manifest.Salvaged
	state    *manifest.State // nil: it is unknown which tables and logs are live
	whole    bool            // state is the latest one, and not an earlier one
	storeID  uint64
	given    []*manifest.Table // tables that are elsewhere and given up

	tables  []base.FileNum // numbers of tables in the folder, ascending
	logs    []base.FileNum
	filters []base.FileNum // numbers of filter files
	other   []string       // names of temporary files and old manifests

	findings []Finding
}

// look makes a survey. giveUp is Options.GiveUp. Its error wraps fs.ErrNotExist if dir holds no store.
func look(ctx context.Context, fsys *source, dir string, giveUp bool) (*survey, error) {
	s := &survey{ctx: ctx, fs: fsys, dir: dir}
	var err error
	if s.salvaged, err = manifest.Salvage(fsys, dir); err != nil {
		return nil, fmt.Errorf("repair: %s: %w", dir, err)
	}
	// The folder is listed after the manifest was read. If a writer is at work, some files
	// that the manifest names may be gone by now, but none is still to be created.
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	s.state, s.whole, s.storeID = s.salvaged.State, s.salvaged.Whole, s.salvaged.StoreID
	for _, name := range names {
		t, n, ok := base.ParseFileName(name)
		switch {
		case !ok:
		case t == base.FileTable:
			s.tables = append(s.tables, n)
		case t == base.FileLog:
			s.logs = append(s.logs, n)
		case t == base.FileFilter:
			s.filters = append(s.filters, n)
		case t == base.FileTemp, t == base.FileManifest && s.state != nil && n != s.state.ManifestNum:
			s.other = append(s.other, name)
		}
	}
	slices.Sort(s.tables)
	slices.Sort(s.logs)
	slices.Sort(s.filters)
	if err := s.identify(); err != nil {
		return nil, err
	}
	if err := s.findElsewhere(giveUp); err != nil {
		return nil, err
	}
	s.noteManifest()
	return s, nil
}

// findElsewhere returns an error that wraps base.ErrElsewhere if tables are missing that the store may keep at another
// place, where nobody has looked: they are not damaged. If they are given up, it notes which they are.
func (s *survey) findElsewhere(giveUp bool) error {
	if s.state == nil || s.state.Elsewhere == "" {
		return nil
	}
	for t := range s.state.Version.Tables() {
		if _, err := s.fs.Stat(s.path(base.TableName(t.Num))); errors.Is(err, fs.ErrNotExist) {
			s.given = append(s.given, t)
		}
	}
	if len(s.given) > 0 && !giveUp {
		return fmt.Errorf("repair: %w: %d of the tables of %s may be in %s", base.ErrElsewhere, len(s.given), s.dir, s.state.Elsewhere)
	}
	return nil
}

// absent returns why a table is not there that the manifest names. If it may be elsewhere, it was given up, or look would have
// returned an error.
func (s *survey) absent(t *manifest.Table) error {
	if s.state.Elsewhere != "" {
		return base.Corruption(base.TableName(t.Num), -1, "table", fmt.Errorf("given up, with %s: it is not in the folder", base.FormatBytes(t.Size)))
	}
	return missing(base.TableName(t.Num), "table named by the manifest")
}

func (s *survey) path(name string) string { return filepath.Join(s.dir, name) }

// add appends a finding and returns its index. If reading has failed in the file,
// the finding says so.
func (s *survey) add(f Finding) int {
	if u, unread := s.fs.unreadIn(f.File); unread && f.Damage() {
		f.Err = fmt.Errorf("%w (from offset %d on, reading fails: %w)", f.Err, u.offset, u.err)
	}
	s.findings = append(s.findings, f)
	return len(s.findings) - 1
}

// identify finds out which store this is. It is the store that the manifest names, if
// another file names it too. Otherwise it is the store that most files name; then the
// manifest is of another store, and is not used.
func (s *survey) identify() error {
	votes := make(map[uint64]int)
	for _, num := range s.tables {
		if n, id, err := s.identifyTable(num); err == nil && n == num {
			votes[id]++
		} else if errors.Is(err, base.ErrFormatTooNew) || errors.Is(err, vfs.ErrEncrypted) {
			return fmt.Errorf("repair: %s: %w", base.TableName(num), err)
		}
	}
	for _, num := range s.logs {
		if h, err := wal.Identify(s.fs, s.dir, num); err == nil && h.Num == num {
			votes[h.StoreID]++
		} else if errors.Is(err, vfs.ErrEncrypted) {
			return fmt.Errorf("repair: %w", err)
		}
	}
	// A folder may have files of two stores, if somebody has copied them. One other file
	// that agrees with the manifest is enough to trust it.
	if len(votes) == 0 || s.salvaged.StoreID != 0 && votes[s.storeID] > 0 {
		return nil
	}
	ids := slices.Collect(maps.Keys(votes))
	slices.SortFunc(ids, func(a, b uint64) int { return votes[b] - votes[a] })
	if len(ids) > 1 && votes[ids[0]] == votes[ids[1]] {
		return fmt.Errorf("repair: %s: as many files are of store %#x as of store %#x: take those of the other one away", s.dir, ids[0], ids[1])
	}
	if s.salvaged.StoreID != 0 {
		s.add(found(s.manifestName(), errors.New("manifest of another store"), LostState))
		s.state, s.whole = nil, false
	}
	s.storeID = ids[0]
	return nil
}

// identifyTable returns the file number and the store id that the table num
// states of itself.
func (s *survey) identifyTable(num base.FileNum) (base.FileNum, uint64, error) {
	f, err := s.fs.Open(s.path(base.TableName(num)))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() // only read
	size, err := f.Size()
	if err != nil {
		return 0, 0, err
	}
	return sstable.Identify(f, size)
}

// manifestName returns the name of the manifest that was read, or CURRENT if
// there was none.
func (s *survey) manifestName() string {
	if s.salvaged.State != nil {
		return base.ManifestName(s.salvaged.State.ManifestNum)
	}
	return base.CurrentName
}

// noteManifest makes findings of the damage that manifest.Salvage has met.
func (s *survey) noteManifest() {
	for _, err := range s.salvaged.Damage {
		s.add(found("", err, LostState))
	}
	if !s.whole || s.state == nil {
		return
	}
	// The source returns zeros for what the device cannot read. Zeros at the end of the
	// manifest look like its end, but records may be lost there.
	name := s.manifestName()
	if u, unread := s.fs.unreadIn(name); unread {
		s.whole = false
		s.add(Finding{File: name, Offset: u.offset, Err: errors.New("manifest record"), Harm: LostState})
	}
}

// live returns the numbers of the tables that the manifest names.
func (s *survey) live() map[base.FileNum]bool {
	live := make(map[base.FileNum]bool)
	for _, r := range s.runs() {
		for _, t := range r.tables {
			live[t.Num] = true
		}
	}
	return live
}

// filterFiles returns the numbers of the filter files that the manifest names.
func (s *survey) filterFiles() map[base.FileNum]bool {
	named := make(map[base.FileNum]bool)
	for _, r := range s.runs() {
		for _, t := range r.tables {
			if t.Sidecar != nil {
				named[t.Sidecar.Num] = true
			}
		}
	}
	return named
}

// A run is a run of the version.
type run struct {
	age    int // 1 for the newest run, and higher for older ones; 0 stands for the logs
	tables []*manifest.Table
}

// runs returns the runs of the version, the newest first.
func (s *survey) runs() (runs []run) {
	if s.state == nil {
		return nil
	}
	for _, level := range s.state.Version.Levels {
		for _, r := range level.Runs {
			runs = append(runs, run{age: len(runs) + 1, tables: r.Tables})
		}
	}
	return runs
}

// errObsoleteLog says why a log is no part of the store. Close leaves the logs that a program holds
// with Shipping.HoldLogs, and those that Options.KeepLog keeps, so such a file need not be a leftover.
var errObsoleteLog = errors.New("all its writes are in tables; only a feed (KeepLog), or a program that holds logs (HoldLogs), may still need it")

// noteStrays makes findings of the files that nothing names, and of obsolete logs.
func (s *survey) noteStrays() {
	live := s.live()
	for _, num := range s.tables {
		if s.state != nil && !live[num] {
			s.add(Finding{File: base.TableName(num), Offset: -1, Err: errors.New("not named by the manifest")})
		}
	}
	for _, num := range s.logs {
		if s.state != nil && num < s.state.MinLog {
			s.add(Finding{File: base.LogName(num), Offset: -1, Err: errObsoleteLog})
		}
	}
	if s.state != nil {
		named := s.filterFiles()
		for _, num := range s.filters {
			if !named[num] {
				s.add(Finding{File: base.FilterName(num), Offset: -1, Err: errors.New("not named by the manifest")})
			}
		}
	}
	for _, name := range s.other {
		s.add(Finding{File: name, Offset: -1, Err: errors.New("not in use")})
	}
}

// failsHere reports whether err, of opening a file, is about this process and not about the
// file: it has no rights, descriptors or memory. Then nothing is known of the file.
func failsHere(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// missing makes the error for a file that is named but not there. why says what names it.
func missing(name, why string) error {
	return base.Corruption(name, -1, why, fs.ErrNotExist)
}
