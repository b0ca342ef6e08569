package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// A position says how far a state is: the index and the term of the last command that its store has.
// It is the value of reservedKey, 16 bytes: two integers of 64 bits, little-endian. No command at
// all has no value.
type position struct{ index, term uint64 }

// positionSize is two integers of 8 bytes.
const positionSize = 16

// appendTo appends the position as the state has it under reservedKey.
func (p position) appendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, p.index)
	return binary.LittleEndian.AppendUint64(dst, p.term)
}

// readPosition returns the position of the state in db.
func readPosition(db *shale.DB) (position, error) {
	v, err := db.Get(reservedKey)
	switch {
	case errors.Is(err, shale.ErrNotFound):
		return position{}, nil
	case err != nil:
		return position{}, err
	case len(v) != positionSize:
		return position{}, base.Corruption("", -1, "position of the state", fmt.Errorf("%d bytes instead of %d", len(v), positionSize))
	}
	return position{binary.LittleEndian.Uint64(v), binary.LittleEndian.Uint64(v[8:])}, nil
}

// checkFiles checks that the manifest of the store in dir is whole, and that every table and every sealed log in it is
// there with its size. It opens none of them, however many there are.
//
// A snapshot may have 100,000 tables, and is checked while raft waits. The bytes were checked when
// they came over the network, or are those of the state itself.
func checkFiles(fsys vfs.FS, dir string) error {
	s, err := manifest.Load(fsys, dir)
	if err != nil {
		return err
	}
	check := func(name string, size int64, exact bool) error {
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err == nil && (info.Size < size || exact && info.Size > size) {
			err = base.Corruption(name, -1, "file", fmt.Errorf("it has %d bytes, and the manifest says %d", info.Size, size))
		}
		return err
	}
	for t := range s.Version.Tables() {
		if err := check(base.TableName(t.Num), int64(t.Size), true); err != nil {
			return err
		}
	}
	for _, l := range s.Logs {
		if err := check(base.LogName(l.Num), l.Length, false); err != nil {
			return err
		}
	}
	return nil
}

// positionIn opens the store in dir for reading, and returns its position. That checks the manifest, and the logs up to
// their ends. With deep it checks all blocks of all tables as well. It writes nothing.
func positionIn(fsys vfs.FS, dir string, deep bool) (p position, err error) {
	db, err := shale.Open(dir, &shale.Options{FS: fsys, ReadOnly: true, Exist: shale.MustExist, FilterBits: -1, CacheSize: -1,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return position{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if deep {
		if err := db.Verify(context.Background()); err != nil {
			return position{}, err
		}
	}
	return readPosition(db)
}

// isDamage reports whether an error of a store says that its files are damaged or missing, as
// opposed to errors that may pass.
func isDamage(err error) bool {
	var damage *shale.CorruptionError
	return errors.As(err, &damage) || errors.Is(err, fs.ErrNotExist)
}

// cloneStore makes the store in dir "to" out of a checkpoint, which it leaves as it is. Tables and
// filters next to tables never change, so a hard link is as good as a copy. A store writes to the
// manifest that it is opened with, and may cut off its last log, so all else is copied.
//
// The caller makes "to" count afterwards, by a rename. A copy that was interrupted is swept by the
// next start.
func cloneStore(fsys vfs.FS, from, to string) error {
	names, err := fsys.List(from)
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	for _, name := range names {
		if !streamed(name) {
			continue
		}
		src, dst := filepath.Join(from, name), filepath.Join(to, name)
		t, _, _ := base.ParseFileName(name)
		make := durable.Copy
		if t == base.FileTable || t == base.FileFilter {
			make = durable.LinkOrCopy
		}
		if err := make(fsys, src, dst); err != nil {
			return err
		}
	}
	return fsys.SyncDir(to)
}
