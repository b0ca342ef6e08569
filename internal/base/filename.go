package base

import (
	"strconv"
	"strings"
)

// A FileNum is the number of a file of a store. No number
// is given out twice, even for files of different types.
type FileNum uint64

// maxFileNum is the largest number that ParseFileName accepts. A store never
// gives out that many, and the numbers after it are still far from an overflow.
const maxFileNum FileNum = 1 << 60

// String returns the number with at least six digits, as in file names. It is not inlined: copies for all
// names in errors would make each program some kilobytes larger.
//
//go:noinline
func (n FileNum) String() string {
	s := strconv.FormatUint(uint64(n), 10)
	return "000000"[min(len(s), 6):] + s
}

// A FileType says what a file of a store is for.
type FileType int

// The files of a store.
const (
	FileTable    FileType = iota // 000012.sst
	FileLog                      // 000012.wal
	FileManifest                 // MANIFEST-000012
	FileCurrent                  // CURRENT
	FileLock                     // LOCK
	FileTemp                     // 000012.tmp; the manifest never names it
	FileFilter                   // 000012.flt: a sidecar, with the filter of a table
)

// CurrentName and LockName are the names of the files without a number.
const (
	CurrentName = "CURRENT"
	LockName    = "LOCK"
)

// TableName returns the name of table n.
func TableName(n FileNum) string { return n.String() + ".sst" }

// FilterName returns the name of filter file n.
func FilterName(n FileNum) string { return n.String() + ".flt" }

// LogName returns the name of log n.
func LogName(n FileNum) string { return n.String() + ".wal" }

// ManifestName returns the name of manifest n.
func ManifestName(n FileNum) string { return "MANIFEST-" + n.String() }

// TempName returns the name of temporary file n.
func TempName(n FileNum) string { return n.String() + ".tmp" }

// ParseFileName returns the type and the number of a file of a
// store. ok is false for every name that shale would not have
// chosen itself, so that the store never touches files of others.
func ParseFileName(name string) (t FileType, n FileNum, ok bool) {
	switch name {
	case CurrentName:
		return FileCurrent, 0, true
	case LockName:
		return FileLock, 0, true
	}
	var digits string
	if rest, found := strings.CutPrefix(name, "MANIFEST-"); found {
		t, digits = FileManifest, rest
	} else {
		stem, ext, _ := strings.Cut(name, ".")
		digits = stem
		switch ext {
		case "sst":
			t = FileTable
		case "wal":
			t = FileLog
		case "tmp":
			t = FileTemp
		case "flt":
			t = FileFilter
		default:
			return 0, 0, false
		}
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || FileNum(v) > maxFileNum || FileNum(v).String() != digits {
		return 0, 0, false
	}
	return t, FileNum(v), true
}
