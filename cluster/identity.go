package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// memberFile is the name of the file that says whose directory it is.
const memberFile = "MEMBER"

// An identity says which member a directory is. It is one line of JSON in the file MEMBER:
//
//	{"id":"a","dir":"9f86d081884c7d65","group":"2c26b46b68ffc68f"}
//
// dir is drawn at random when the directory is made. Raft knows the member as "a/9f86d081884c7d65",
// so that an empty directory under an old id is another server for it: one that lost its disk and
// comes back under its old name would otherwise vote a second time in a term, or miss what it had
// acknowledged. group is drawn by the member that makes the group, and others learn it when they
// join. Members with different groups refuse to talk to each other.
type identity struct {
	ID     string `json:"id"`
	Dir    string `json:"dir"`
	Group  string `json:"group,omitempty"`
	Joined bool   `json:"joined,omitempty"` // a leader has said that it is in

	// Differs says why the member has stopped for good: see differ.go.
	Differs string `json:"differs,omitempty"`

	// Was is the group out of which Recover has made this one. Recovering says that the log is still the old one's.
	Was        string `json:"was,omitempty"`
	Recovering bool   `json:"recovering,omitempty"`

	// What Open compares with the log: see promise.go.
	Log   string `json:"log,omitempty"`
	Term  uint64 `json:"term,omitempty"`
	Index uint64 `json:"index,omitempty"`
}

// server returns the name by which raft knows the member.
func (i identity) server() raft.ServerID { return raft.ServerID(i.ID + "/" + i.Dir) }

// memberID returns the member's id in raft's name of it.
func memberID(s raft.ServerID) string {
	id, _, _ := strings.Cut(string(s), "/")
	return id
}

// randomName returns 16 random hex digits.
func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// loadIdentity reads the identity of dir, or makes one for a new directory.
//
// The options name the member too, so that a directory that was mounted at the wrong machine is
// found here, and not by the group.
func loadIdentity(fsys vfs.FS, dir, id string) (identity, error) {
	i, err := readIdentity(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		// A directory with a log but without an identity is none of ours, or a damaged one.
		// A new identity for it would make another member of it, with the old one's votes.
		if _, err := fsys.Stat(filepath.Join(dir, logDir)); err == nil {
			return identity{}, fmt.Errorf("%s holds a member's log, but its file %s is missing: put it back, "+
				"or remove the directory and the member, and let it join again", dir, memberFile)
		}
		i := identity{ID: id, Dir: randomName()}
		return i, storeIdentity(fsys, dir, i)
	}
	if err == nil && i.Differs != "" {
		err = fmt.Errorf("%w: %s", ErrDiffers, i.Differs)
	}
	if err == nil && i.ID != id {
		err = fmt.Errorf("%s is the directory of member %q, not of %q", dir, i.ID, id)
	}
	return i, err
}

// readIdentity reads the identity of dir.
func readIdentity(fsys vfs.FS, dir string) (i identity, err error) {
	name := filepath.Join(dir, memberFile)
	data, err := readWhole(fsys, name)
	if err != nil {
		return identity{}, err
	}
	if err := json.Unmarshal(data, &i); err != nil || !validID(i.ID) || i.Dir == "" {
		return identity{}, fmt.Errorf("%s is damaged: it should name a member, a directory and a group in JSON", name)
	}
	return i, nil
}

// storeIdentity replaces the file MEMBER in one step.
//
// The new file is durable under another name before it gets its own. So the file is the old one or
// the new one at any time: a member without it would be another member.
func storeIdentity(fsys vfs.FS, dir string, i identity) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, memberFile)
	if err := durable.Write(fsys, name+".tmp", append(data, '\n')); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// adopt notes the group's name for good.
//
// A member has one group for its whole life. It learns the name from the answer to its join, or
// from the greeting of a leader that is faster than that answer.
func (n *Node) adopt(group string) error {
	err := n.changeIdentity(func(i *identity) {
		if i.Group == "" {
			i.Group = group
		}
	})
	if own := n.group(); err == nil && own != group {
		err = fmt.Errorf("%w: this one is of %s, the other of %s", ErrOtherGroup, own, group)
	}
	return err
}

// changeIdentity writes MEMBER again if fn changes something.
func (n *Node) changeIdentity(fn func(*identity)) error {
	n.identityMu.Lock()
	defer n.identityMu.Unlock()
	id := n.id
	// Most calls change nothing, such as an adopt of the same group at each greeting, and so cost
	// no write.
	if fn(&id); id == n.id {
		return nil
	}
	if err := storeIdentity(n.opts.FS, n.dir, id); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.id = id
	return nil
}

// identity returns what MEMBER says.
func (n *Node) identity() identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// group returns the group's name, "" before the member has one.
func (n *Node) group() string { return n.identity().Group }
