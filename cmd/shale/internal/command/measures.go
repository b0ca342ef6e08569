package command

import (
	"cmp"
	"path/filepath"
	"sync/atomic"

	"github.com/shaledb/shale/cmd/shale/internal/backup"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// This file has the measures of commands whose work is done elsewhere: in package repair or in the store.

// entries is the format of a measure of entries.
func entries(n int64) string { return output.Entries(int(n)) }

// measureReads returns a function that counts the bytes that are read of the store in dir. They are
// measured by the size of its files.
func (s *Session) measureReads(dir string) func(n int) {
	var done atomic.Int64
	all := s.sizeOf(dir, func(base.FileType, base.FileNum) bool { return true })
	s.measure(measure{done: done.Load, format: base.FormatBytes, part: partOf(done.Load, all)})
	return func(n int) { done.Add(int64(n)) }
}

// measureBackup measures a backup or a restore by the progress that it returns.
func (s *Session) measureBackup() *backup.Progress {
	p := new(backup.Progress)
	s.measure(measure{done: p.Done.Load, format: base.FormatBytes, part: func() float64 {
		return float64(p.Done.Load()) / float64(max(p.All.Load(), 1)) // above 1 behind the tables: then it is not known
	}})
	return p
}

// measureTables measures how many bytes of tables and filters are made in the folder dir from now on. At the end it
// will be about all bytes; 0: that is not known.
//
// Their files grow while they are written, and the counters of the store only change when all of a
// compaction is done.
func (s *Session) measureTables(dir string, all int64) {
	var newest base.FileNum
	s.sizeOf(dir, func(_ base.FileType, num base.FileNum) bool {
		newest = max(newest, num)
		return false
	})
	done := func() int64 {
		return s.sizeOf(dir, func(typ base.FileType, num base.FileNum) bool {
			return num > newest && (typ == base.FileTable || typ == base.FileFilter)
		})
	}
	m := measure{done: done, format: base.FormatBytes}
	if all > 0 {
		m.part = partOf(done, all)
	}
	s.measure(m)
}

// sizeOf returns the size of the files of a store that counts accepts. What can't be read is left out: that is
// no reason for a command to fail.
func (s *Session) sizeOf(dir string, counts func(typ base.FileType, num base.FileNum) bool) (size int64) {
	fsys := cmp.Or(s.fs, vfs.Default)
	names, _ := fsys.List(dir)
	for _, name := range names {
		if typ, num, ours := base.ParseFileName(name); ours && counts(typ, num) {
			if info, err := fsys.Stat(filepath.Join(dir, name)); err == nil {
				size += info.Size
			}
		}
	}
	return size
}
