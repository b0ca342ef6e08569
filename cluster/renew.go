package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// A member whose log is damaged has lost what it had acknowledged, and whom it had voted for. Under
// its old name it could help to elect a leader that lacks acknowledged writes. So it becomes another
// server for raft:
//
//  1. MEMBER gets a new random name of the directory, and notes the old one. From here on the old
//     server is dead.
//  2. The stores of the old one are moved to the directory "lost".
//  3. It joins by Options.Join as a new learner. The leader removes the old server first, then gets
//     it up to date and gives it a vote, as any other.
//
// It counts for nothing until then, as before. Without Options.Join nobody can be asked, and Open
// fails instead: a group of one must not become an empty one by itself.

const (
	lostDir     = "lost"        // the stores of the last old name
	damagedMark = "log.damaged" // says that reading the log has met damage
)

// errDamagedLog is wrapped when the log's store can't be used any more.
var errDamagedLog = errors.New("cluster: the member's log is damaged")

// checkLog reports what is known about the log before it is opened.
func (n *Node) checkLog() error {
	if n.id.Group == "" || n.id.Renewing {
		return nil
	}
	switch _, err := n.opts.FS.Stat(filepath.Join(n.dir, damagedMark)); {
	case err == nil:
		return fmt.Errorf("%w: it was found when an entry was read", errDamagedLog)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	_, err := n.opts.FS.Stat(filepath.Join(n.dir, logDir))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the directory %s is missing", errDamagedLog, logDir)
	}
	return err
}

// failLog is fail for errors of the log's store. If it is damaged, the next Open has to know.
func (n *Node) failLog(err error) {
	if isDamage(err) {
		_ = writeWhole(n.opts.FS, filepath.Join(n.dir, damagedMark), nil) // if this fails, the next read tells again
		_ = n.opts.FS.SyncDir(n.dir)
	}
	n.fail(err)
}

// renews reports whether an error of Open is one that a new name helps against.
func renews(err error) bool { return errors.Is(err, errDamagedLog) || errors.Is(err, errLost) }

// renew gives the member a new name.
func (n *Node) renew() error {
	id := n.id
	id.Replaces = append(id.Replaces[:len(id.Replaces):len(id.Replaces)], id.server())
	id.Dir, id.Joined, id.Renewing = randomName(), false, true
	if err := storeIdentity(n.opts.FS, n.dir, id); err != nil {
		return err
	}
	n.id = id
	return nil
}

// moveOldStores moves the stores of the old name to the directory "lost", and removes what was there.
// It can be repeated after a crash.
func (n *Node) moveOldStores() error {
	fsys, to := n.opts.FS, filepath.Join(n.dir, lostDir, n.id.Dir)
	if err := n.removeOtherLost(); err != nil {
		return err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	names, err := fsys.List(n.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != logDir && name != snapshotsDir && name != damagedMark && !strings.HasPrefix(name, statePrefix) {
			continue
		}
		from := filepath.Join(n.dir, name)
		_, err := fsys.Stat(filepath.Join(to, name))
		switch {
		case err == nil: // the old one is there already, and this is a new one
			err = removeTree(fsys, from)
		case errors.Is(err, fs.ErrNotExist):
			err = fsys.Rename(from, filepath.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(fsys.SyncDir(to), fsys.SyncDir(n.dir))
}

// removeOtherLost removes what earlier renewals have left.
func (n *Node) removeOtherLost() error {
	names, err := n.opts.FS.List(filepath.Join(n.dir, lostDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if name != n.id.Dir {
			err = errors.Join(err, removeTree(n.opts.FS, filepath.Join(n.dir, lostDir, name)))
		}
	}
	return err
}

// endRenewal notes that the stores are those of the new name.
func (n *Node) endRenewal() error {
	return n.changeIdentity(func(i *identity) { i.Renewing = false })
}
