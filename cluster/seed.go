package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/vfs"
)

// seedPosition is where the log of a group begins that was made by Seed: before its first entry. It
// can't be 0, as raft then takes a snapshot for none. Members that join find that the leader's log does not
// reach back to its beginning, and so get the state as a snapshot.
var seedPosition = position{index: 1, term: 1}

// currentTermKey is the name under which raft keeps its term in the stable store.
var currentTermKey = []byte("CurrentTerm")

// Seed makes dir the directory of the first member of a new group, whose state is that of the store in
// the directory from. That store may have been restored from a backup of a group's member, or be any other
// store without keys that begin with 32 bytes 0xff. It must be closed, and stays as it is: tables
// are linked if the file system allows, and copied otherwise.
//
// Of the options it takes ID, Advertise or else Listen, and FS. Open then opens the member as any other, and it leads a
// group of its own, which others can join. If Open is given another address than Seed, the group uses that one. A
// directory that is a member's already is refused (fs.ErrExist).
//
// The members of an old group, from which the store comes, are of another group: they refuse to
// talk to those of the new one.
func Seed(dir, from string, o *Options) error {
	if err := seed(dir, from, o.withDefaults()); err != nil {
		return fmt.Errorf("cluster: seed %s with %s: %w", dir, from, err)
	}
	return nil
}

// seed makes the snapshot, the log and at last MEMBER. A directory without MEMBER is no member's,
// and a second Seed says what to remove from it.
func seed(dir, from string, o *Options) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	if err := o.FS.MkdirAll(dir); err != nil {
		return err
	}
	lock, err := lockDir(o.FS, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	for _, name := range []string{memberFile, logDir, snapshotsDir} {
		if _, err := o.FS.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there, so the directory is a member's already, or was to become one when that was interrupted; "+
				"choose another, or remove what is in it: %w", name, errors.Join(err, fs.ErrExist))
		}
	}
	closed, err := lockSource(o.FS, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed.Close()) }()
	id := identity{ID: o.ID, Dir: randomName(), Group: randomName(), Joined: true}
	if err := seedSnapshot(dir, from, o, id.server()); err != nil {
		return err
	}
	if err := seedLog(filepath.Join(dir, logDir), o.FS); err != nil {
		return err
	}
	// The identity comes last: without it Open refuses the directory.
	return storeIdentity(o.FS, dir, id)
}

// lockSource makes sure that no program writes to the store in the directory from, whose copy would be of no one
// moment, until its result is closed.
func lockSource(fsys vfs.FS, from string) (io.Closer, error) {
	unlocked := io.NopCloser(nil)
	locker, ok := fsys.(vfs.SharedLocker)
	if !ok {
		return unlocked, nil
	}
	lock, err := locker.LockShared(filepath.Join(from, base.LockName))
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("a program has the store open: close it first, or take a checkpoint of it: %w", err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, vfs.ErrUnsupported): // a checkpoint has no lock
		return unlocked, nil
	}
	return lock, err
}

// seedSnapshot makes a snapshot of the store in the directory from.
func seedSnapshot(dir, from string, o *Options, server raft.ServerID) error {
	snaps, err := openSnapshots(o.FS, filepath.Join(dir, snapshotsDir))
	if err != nil {
		return err
	}
	temp, err := snaps.tempDir()
	if err != nil {
		return err
	}
	store := filepath.Join(temp, storeName)
	if err := cloneStore(o.FS, from, store); err != nil {
		return err
	}
	if err := seedState(store, o.FS); err != nil {
		return err
	}
	address := cmp.Or(o.Advertise, o.Listen)
	sink, err := snaps.Create(raft.SnapshotVersionMax, seedPosition.index, seedPosition.term, raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: server, Address: raft.ServerAddress(address)},
	}}, seedPosition.index, nil)
	if err != nil {
		return err
	}
	sink.(*snapshotSink).adopt(temp, seedPosition)
	return sink.Close()
}

// seedState writes the position into the state. The one of another group's log would make the state skip the
// new one's first entries.
func seedState(store string, fsys vfs.FS) (err error) {
	db, err := shale.Open(store, &shale.Options{FS: fsys, Exist: shale.MustExist, Durability: shale.SyncEach})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for e, err := range db.Scan(shale.Range{Lower: append(reservedKey[:len(reservedKey):len(reservedKey)], 0), KeysOnly: true, Limit: 3}) {
		if err != nil {
			return err
		}
		if !bytes.Equal(e.Key, digestKey) && !bytes.Equal(e.Key, timeKey) {
			return fmt.Errorf("%w, and the store has one of %d bytes", ErrReservedKey, len(e.Key))
		}
	}
	if err := db.Delete(digestKey); err != nil {
		return err
	}
	if err := seedTime(db, store, fsys); err != nil {
		return err
	}
	return db.Put(reservedKey, seedPosition.appendTo(nil))
}

// seedTime writes the time into the state if it has values that expire: now, or that of the old group if that is later.
func seedTime(db *shale.DB, store string, fsys vfs.FS) error {
	var t stateTime
	if err := t.read(db); err != nil {
		return err
	}
	if err := db.Flush(context.Background()); err != nil { // tables say what expires in them
		return err
	}
	m, err := manifest.Load(fsys, store)
	if err != nil {
		return err
	}
	last := t.last.Load()
	for _, level := range m.Version.Levels {
		for _, r := range level.Runs {
			for _, table := range r.Tables {
				if table.Expiry != nil {
					last = max(last, table.Expiry[len(table.Expiry)-1])
				}
			}
		}
	}
	if last == 0 {
		return nil
	}
	return db.Put(timeKey, appendStateTime(nil, max(t.now.Load(), time.Now().UnixMilli()), last))
}

// seedLog makes an empty log in the snapshot's term: a later term is that of a later election.
func seedLog(dir string, fsys vfs.FS) (err error) {
	o := LogStoreOptions()
	o.FS = fsys
	db, err := shale.Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return NewLogStore(db).SetUint64(currentTermKey, seedPosition.term)
}
