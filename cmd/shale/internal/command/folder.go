package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A folder is a store whose files are read without opening it, so that it may be
// open in another program, or damaged.
//
// It is what the files say at one moment. A writer may remove some of them afterwards: each reader
// then gets fs.ErrNotExist, and asks missing what that means.
type folder struct {
	vfs.FS
	dir     string
	sal     *manifest.Salvaged
	storeID uint64
	names   []string // the names of all files
}

// lookInto reads the manifest of the session's store as far as possible, and reports what is
// wrong with it.
//
// A damaged manifest is read up to the damage. If it does not say the store's identity, the first
// table that does is believed, so that the other tables can be checked against it.
func (s *Session) lookInto() (*folder, error) {
	if s.Dir == "" {
		return nil, ErrNoDir
	}
	f := &folder{FS: cmp.Or(s.fs, vfs.Default), dir: s.Dir}
	var err error
	if f.sal, err = manifest.Salvage(f.FS, f.dir); err != nil {
		return nil, openError(f.dir, err)
	}
	if f.names, err = f.List(f.dir); err != nil {
		return nil, err
	}
	slices.Sort(f.names)
	for _, damage := range f.sal.Damage {
		fmt.Fprintf(s.Notes, "shale: %s; what is readable is shown\n", plain(damage))
	}
	f.storeID = f.sal.StoreID
	for _, name := range f.names {
		if f.storeID != 0 {
			break
		}
		if typ, num, ok := base.ParseFileName(name); ok && typ == base.FileTable {
			_ = f.withTable(num, func(src vfs.File, size int64) error { // if this fails, another file may state it
				_, f.storeID, err = sstable.Identify(src, size)
				return err
			})
		}
	}
	return f, nil
}

// errMoved says that a program has changed the store while its files were read.
var errMoved = errors.New("the store changed while it was read")

// maxLooks is the largest number of times that settled tries.
const maxLooks = 10

// settled calls look with the result of lookInto. It repeats both if a writer has removed
// files meanwhile.
//
// A store that is written to all the time could go on changing for ever, so the number of attempts
// has a limit.
func (s *Session) settled(look func(f *folder) error) error {
	for try := 1; ; try++ {
		f, err := s.lookInto()
		if err == nil {
			err = look(f)
		}
		if !errors.Is(err, errMoved) || try == maxLooks {
			return err
		}
	}
}

// missing returns why a file that the manifest names is not there: errMoved, or damage.
//
// It reads the manifest again. If that does not name the file any more, a writer has replaced it in
// the meantime, and the caller begins again. If it still does, the file is lost.
func (f *folder) missing(name string) error {
	now, err := manifest.Salvage(f.FS, f.dir)
	if err != nil {
		return err
	}
	typ, num, _ := base.ParseFileName(name)
	fresh := folder{sal: now}
	what := "table"
	if typ == base.FileLog {
		what = "log"
		if now.State != nil && num < now.State.MinLog {
			return errMoved
		}
	} else if fresh.place(num) == nil {
		return errMoved
	}
	return base.Corruption(name, -1, what+" named by the manifest", errors.New("missing"))
}

// version returns the tables of the store. It has none if no manifest can be read.
func (f *folder) version() *manifest.Version {
	if f.sal.State == nil {
		return &manifest.Version{}
	}
	return f.sal.State.Version
}

// numbers returns the numbers of the files of a type, in ascending order.
func (f *folder) numbers(typ base.FileType) (list []base.FileNum) {
	for _, name := range f.names {
		if t, num, ok := base.ParseFileName(name); ok && t == typ {
			list = append(list, num)
		}
	}
	slices.Sort(list)
	return list
}

// path returns the path of a file in the folder.
func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// size returns the length of a file in bytes, or 0 if the file is gone.
func (f *folder) size(name string) (int64, error) {
	file, err := f.Open(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close() // opened for reading
	return file.Size()
}

// withTable calls fn with the file of a table.
//
// The table need not be one that the manifest names.
func (f *folder) withTable(num base.FileNum, fn func(src vfs.File, size int64) error) error {
	file, err := f.Open(f.path(base.TableName(num)))
	if errors.Is(err, fs.ErrNotExist) {
		return &sentence{fmt.Sprintf("there is no table %s; tables lists them", base.TableName(num)), fs.ErrNotExist}
	}
	if err != nil {
		return err
	}
	defer file.Close() // opened for reading
	size, err := file.Size()
	if err != nil {
		return err
	}
	return fn(file, size)
}

// A place is a table and its place in the tree, as the manifest states it.
//
// The numbers are those of the command tables.
type place struct {
	level, run int // run 0 is the newest of the level
	table      *manifest.Table
}

// String returns the place in words, also for a table that has none.
func (p *place) String() string {
	if p == nil {
		return "in no level: the manifest does not name it"
	}
	return fmt.Sprintf("%s run %d", levelName(p.level), p.run)
}

// places returns the tables of the version in the order in which a lookup asks them.
func (f *folder) places() (list []place) {
	for level, l := range f.version().Levels {
		for run := range l.Runs {
			for _, t := range l.Runs[run].Tables {
				list = append(list, place{level, run, t})
			}
		}
	}
	return list
}

// place returns the place of a table, or nil if the manifest does not name the table.
func (f *folder) place(num base.FileNum) *place {
	for _, p := range f.places() {
		if p.table.Num == num {
			return &p
		}
	}
	return nil
}

// salvageOptions returns what is known about a table.
//
// The more is known, the more damage is found: without size and checksum a table that was cut off
// looks whole.
func (f *folder) salvageOptions(num base.FileNum) sstable.SalvageOptions {
	o := sstable.SalvageOptions{Num: num, StoreID: f.storeID}
	if p := f.place(num); p != nil {
		o.Size, o.Checksum, o.Entries = p.table.Size, p.table.Checksum, p.table.Entries
	}
	return o
}

// reader opens a table with the filter that the store uses for it. The caller must call
// release when it does not need the table any more.
//
// Size and checksum come from the manifest, so a table of another store under the same name is
// found out.
func (f *folder) reader(t *manifest.Table) (r *sstable.Reader, release func(), err error) {
	file, err := f.Open(f.path(base.TableName(t.Num)))
	if err != nil {
		return nil, nil, err
	}
	release = func() { _ = file.Close() } // opened for reading
	// A sidecar that is missing or wrong is no reason to give up the table: its own filter is used
	// then.
	o := sstable.ReaderOptions{Num: t.Num, StoreID: f.storeID, Size: t.Size, Checksum: t.Checksum}
	if s := t.Sidecar; s != nil {
		if side, err := f.Open(f.path(base.FilterName(s.Num))); err == nil { // if there is no sidecar, the filter in the table is used
			release = func() { _, _ = file.Close(), side.Close() }
			o.Sidecar = sstable.NewSidecar(side, sstable.SidecarInfo{
				Num: s.Num, StoreID: f.storeID, Table: t.Num, TableChecksum: t.Checksum, Size: s.Size, Checksum: s.Checksum,
			})
		}
	}
	if r, err = sstable.Open(file, o); err != nil {
		release()
		return nil, nil, err
	}
	return r, release, nil
}

// parseNumber parses the number of a file, which is written 12, 000012, #12 or as the file's name.
//
// All these forms stand in outputs of this program, and are copied from there.
func parseNumber(text string, typ base.FileType, what string) (base.FileNum, error) {
	if t, num, ok := base.ParseFileName(text); ok && t == typ {
		return num, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 60)
	if err != nil {
		return 0, fmt.Errorf("%s is not the number of a %s", output.Quote(text), what)
	}
	return base.FileNum(n), nil
}
