package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// When a majority of the disks is lost for good, nobody can know what the lost ones had acknowledged. The survivor
// whose log ends with the highest term, and with the highest index in it, has all that is left: it would have won the
// election. It goes on alone as a new group. The other survivors may have entries that it lacks, so they come back
// with empty directories, and the new name of the group keeps everybody out who still has the old one.

// A Survivor is a member that is stopped and whose group has lost its majority.
type Survivor struct {
	ID    string // the member's
	Group string // a random number, the same in all members of a group
	Term  uint64 // of the last entry that it has
	Index uint64 // of that entry

	// Differs says that the member was stopped because its state differs from that of the majority. Its log has what it
	// acknowledged, but it goes on only if no other is left.
	Differs bool

	StateTerm, StateIndex uint64 // of the last command in its state; ReadSurvivor alone knows them

	server raft.ServerID
}

// String returns the survivor as [ParseSurvivor] reads it: "a/9f86d081884c7d65:2c26b46b68ffc68f:3:15" is member a of
// group 2c26b46b68ffc68f, whose last entry has term 3 and index 15. One that differs has ":differs" behind that.
func (s Survivor) String() string {
	text := fmt.Sprintf("%s:%s:%d:%d", s.server, s.Group, s.Term, s.Index)
	if s.Differs {
		text += differsSuffix
	}
	return text
}

// differsSuffix marks the name of a survivor that was stopped because its state differs. It is a
// part of the name, so that every machine's Recover chooses the same survivor.
const differsSuffix = ":differs"

// ParseSurvivor reads what String returns.
func ParseSurvivor(text string) (s Survivor, err error) {
	short, differs := strings.CutSuffix(text, differsSuffix)
	parts := strings.Split(short, ":")
	if len(parts) == 4 {
		s = Survivor{ID: memberID(raft.ServerID(parts[0])), Group: parts[1], Differs: differs, server: raft.ServerID(parts[0])}
		var err2 error
		s.Term, err = strconv.ParseUint(parts[2], 10, 64)
		s.Index, err2 = strconv.ParseUint(parts[3], 10, 64)
		err = errors.Join(err, err2)
	}
	if len(parts) != 4 || err != nil || !validID(s.ID) || s.Group == "" {
		return Survivor{}, fmt.Errorf("cluster: %q names no survivor: it should be like a/9f86d081884c7d65:2c26b46b68ffc68f:3:15", text)
	}
	return s, nil
}

// latest is the order of the ends of logs: by term, then by index. Of two with the same end, whose logs are the same,
// one is as good as the other. A member whose state differs comes before all others.
func latest(a, b Survivor) int {
	switch {
	case a.Differs && !b.Differs:
		return -1
	case b.Differs && !a.Differs:
		return 1
	}
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Index, b.Index), cmp.Compare(b.server, a.server))
}

// ReadSurvivor tells how far the member in dir is, which must be stopped. It changes nothing. The file system
// is [Options.FS], if o is not nil.
func ReadSurvivor(dir string, o *Options) (s Survivor, err error) {
	err = whileStopped(dir, o, func(fsys vfs.FS) error {
		id, err := readIdentity(fsys, dir)
		if err == nil {
			s, err = readSurvivor(fsys, dir, id)
		}
		return err
	})
	return s, err
}

// whileStopped calls fn while nobody can open the member in dir.
func whileStopped(dir string, o *Options, fn func(vfs.FS) error) error {
	fsys := o.withDefaults().FS
	_, err := fsys.Stat(dir)
	if err == nil {
		lock, e := lockDir(fsys, dir)
		if err = e; err == nil {
			err = errors.Join(fn(fsys), lock.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("cluster: recover %s: %w", dir, err)
	}
	return nil
}

func readSurvivor(fsys vfs.FS, dir string, id identity) (s Survivor, err error) {
	s = Survivor{ID: id.ID, Group: id.Group, Differs: id.Differs != "", server: id.server()}
	if id.Group == "" {
		return s, errors.New("the member was never in a group")
	}
	o := LogStoreOptions()
	o.FS, o.ReadOnly, o.Exist = fsys, true, shale.MustExist
	db, err := shale.Open(filepath.Join(dir, logDir), o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log := NewLogStore(db)
	snaps, err := readSnapshots(fsys, filepath.Join(dir, snapshotsDir))
	if err != nil {
		return s, err
	}
	if err := (&Node{id: id, log: log, snapshots: snaps}).checkLog(); err != nil {
		return s, err
	}
	number, damaged, err := newestState(fsys, dir)
	if err != nil {
		return s, err
	}
	var at position
	if number > 0 && !damaged {
		if at, err = positionIn(fsys, statePath(dir, number), false); err != nil && !isDamage(err) {
			return s, err
		}
	}
	end, _, err := lastEntry(log, snaps, at)
	s.Term, s.Index, s.StateTerm, s.StateIndex = end.term, end.index, at.term, at.index
	return s, err
}

// lastEntry returns the end of what a member has, whose state is at this position, and whether that is in its log.
func lastEntry(log raft.LogStore, snaps *snapshots, at position) (end position, logged bool, err error) {
	end = at
	snap := snaps.newest()
	if snap != nil && (snap.meta.Term > end.term || snap.meta.Term == end.term && snap.meta.Index > end.index) {
		end = position{snap.meta.Index, snap.meta.Term}
	}
	first, last, stale, err := logBounds(log, snap)
	if err != nil || stale || last <= end.index || first > end.index+1 {
		return end, false, err
	}
	var entry raft.Log
	err = log.GetLog(last, &entry)
	return position{last, entry.Term}, true, err
}

// Recover goes on with a group that has lost its majority for good, from the member in dir, which must be stopped.
// survivors are all that are left, this one among them, each as [ReadSurvivor] has told it. Call it with the same list
// for each of them, on its own machine:
//
//   - For the one that is furthest it returns true. When that is opened, it takes all entries of its log for
//     committed, and leads a new group of its own. One whose state differs ([ErrDiffers]) is chosen only if all others
//     differ too.
//   - For the others it returns false: it has moved their files to a directory in "lost", and they can join the new group
//     as empty ones.
//
// The lost members must never come back. If Recover is interrupted, call it again; once it is done, that does no harm.
func Recover(dir string, survivors []Survivor, o *Options) (leads bool, err error) {
	err = whileStopped(dir, o, func(fsys vfs.FS) (err error) {
		leads, err = recoverMember(fsys, dir, survivors)
		return err
	})
	return leads, err
}

func recoverMember(fsys vfs.FS, dir string, survivors []Survivor) (leads bool, err error) {
	if len(survivors) == 0 {
		return false, errors.New("the list of survivors is empty: it needs this member at least")
	}
	best := slices.MaxFunc(survivors, latest)
	for i, s := range survivors {
		if s.Group != best.Group {
			return false, fmt.Errorf("%w: %v and %v are of two groups", ErrOtherGroup, s, best)
		}
		if slices.ContainsFunc(survivors[:i], func(other Survivor) bool { return other.ID == s.ID }) {
			return false, fmt.Errorf("the list of survivors names %q twice", s.ID)
		}
	}
	id, err := readIdentity(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		for _, s := range survivors { // it was put aside, perhaps in part
			_, directory, _ := strings.Cut(string(s.server), "/")
			if _, e := fsys.Stat(filepath.Join(dir, lostDir, directory, memberFile)); e == nil {
				return false, putAside(fsys, dir, directory)
			}
		}
	}
	switch {
	case err != nil:
		return false, err
	case id.Group != best.Group && id.Was == best.Group:
		return true, nil // it is done
	case id.Group != best.Group:
		return false, fmt.Errorf("%w: the member is of group %s, the survivors of %s", ErrOtherGroup, id.Group, best.Group)
	}
	own, err := readSurvivor(fsys, dir, id)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(survivors, func(s Survivor) bool { return s.String() == own.String() }) {
		return false, fmt.Errorf("the list of survivors must have %v, which is this member as it is now", own)
	}
	if best.server != own.server {
		return false, putAside(fsys, dir, id.Dir)
	}
	id.Was, id.Group, id.Joined, id.Recovering, id.Differs = id.Group, randomName(), true, true, ""
	return true, storeIdentity(fsys, dir, id)
}

// lostDir has the files of members that were put aside, each in a directory with its random name.
const lostDir = "lost"

// putAside moves the files of a member away: MEMBER first and the log last, because a directory with a log and without MEMBER
// can't be opened.
func putAside(fsys vfs.FS, dir, directory string) error {
	to := filepath.Join(dir, lostDir, directory)
	if err := errors.Join(fsys.MkdirAll(to), fsys.SyncDir(filepath.Dir(to)), fsys.SyncDir(dir)); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name != snapshotsDir && !strings.HasPrefix(name, statePrefix) })
	for _, name := range slices.Concat([]string{memberFile}, names, []string{logDir}) {
		err := fsys.Rename(filepath.Join(dir, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was moved by a call before
			return err
		}
		if err := errors.Join(fsys.SyncDir(to), fsys.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// recover makes this member the only one, and everything in its log committed: by a snapshot with that configuration
// in front of an empty log. It runs before raft starts, and may be interrupted anywhere.
func (n *Node) recover() error {
	end, logged, err := lastEntry(n.log, n.snapshots, n.state.current.Load().at)
	if err != nil {
		return err
	}
	for i := n.state.applied() + 1; logged && i <= end.index; i++ {
		entry := new(raft.Log)
		if err := n.log.GetLog(i, entry); err != nil {
			return err
		}
		if entry.Type == raft.LogCommand {
			n.state.Apply(entry)
		}
	}
	snap, err := n.state.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	alone := raft.Configuration{Servers: []raft.Server{{ID: n.server, Address: raft.ServerAddress(n.network.advertise)}}}
	sink, err := n.snapshots.Create(raft.SnapshotVersionMax, end.index, end.term, alone, 1, nil)
	if err != nil {
		return err
	}
	if err := snap.Persist(sink); err != nil {
		return err
	}
	// Snapshots that were further, but are damaged, do not count any more: the next start would miss what they had.
	if err := n.snapshots.clear(); err != nil {
		return err
	}
	first, last, _, err := logBounds(n.log, nil)
	if err == nil {
		err = n.log.DeleteRange(first, last)
	}
	if err != nil {
		return err
	}
	return n.changeIdentity(func(i *identity) { i.Recovering, i.Index = false, end.index })
}
