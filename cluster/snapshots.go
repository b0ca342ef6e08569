package cluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// Snapshots are checkpoints of the state, which cost a hard link for each table. In the directory
// of the snapshots each has one of its own, named after term, index and time:
//
//	2-8192-1700000000000/meta.json   what raft wants to know, and the position of the state
//	2-8192-1700000000000/store/      the checkpoint
//	7.tmp/                           one that is being made or removed
//	incoming/                        files of one that is being received: see receive.go
//
// A snapshot counts from the moment when its directory has its name. Before that, all that is in it is
// durable and was checked. Names that end in ".tmp" are swept when the member starts. The store
// in a snapshot is never opened for writing.
const (
	metaName   = "meta.json"
	storeName  = "store"
	tempSuffix = ".tmp"
)

// snapshotsKept is how many snapshots a member keeps of its own. They are hard links to the tables of their time, which cost
// room only once the state has moved on.
const snapshotsKept = 2

// snapshots is the raft.SnapshotStore of a member. All methods may be called concurrently.
//
// Raft makes, lists and opens snapshots on goroutines of its own, and others of this package take
// and drop them. Files are made and removed without the lock: a snapshot is in the list before
// anybody can ask for it, and out of it before its files go.
type snapshots struct {
	// Constant.
	fs  vfs.FS
	dir string
	now func() time.Time

	// wanted gets a token when a snapshot could not be sent because it is damaged: another one
	// should be made.
	wanted chan struct{}

	// Snapshots that were found damaged, and so are not in list. Only used before raft starts.
	lost uint64   // their highest index
	junk []string // their directories, which clear removes

	// mu protects what follows, and is not held while files are made or removed, but for links to old tables.
	mu     sync.Mutex
	list   []*snapshot // newest first
	temps  int         // the number of the last directory in the making
	sender io.Closer   // the connection of the last transfer to this member

	receiving sync.Mutex // held by the goroutine that uses the directory incoming. It comes before mu
	arrived   *fileList  // whose files are all there, or nil. Guarded by receiving
}

// A snapshot is one that counts.
type snapshot struct {
	meta  raft.SnapshotMeta
	state position // of the store; raft's index may be higher, because not all entries are commands
	dir   string

	// Protected by snapshots.mu.
	users   int  // readers
	dropped bool // it goes with its last reader
}

// store returns the directory of the snapshot's checkpoint.
func (s *snapshot) store() string { return filepath.Join(s.dir, storeName) }

// openSnapshots returns the snapshots in dir, and sweeps what a crash has left of others.
func openSnapshots(fsys vfs.FS, dir string) (*snapshots, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err := sweepTemps(fsys, dir, ""); err != nil {
		return nil, err
	}
	return readSnapshots(fsys, dir)
}

// readSnapshots is openSnapshots, but changes nothing.
func readSnapshots(fsys vfs.FS, dir string) (*snapshots, error) {
	s := &snapshots{fs: fsys, dir: dir, now: time.Now, wanted: make(chan struct{}, 1)}
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		index, _, ok := parseSnapshotName(name)
		if !ok {
			continue // unfinished, or somebody else's
		}
		snap, err := readSnapshot(fsys, path)
		switch {
		case err == nil && snap.meta.ID == name && snap.meta.Index == index:
			s.list = append(s.list, snap)
		case err == nil || isDamage(err):
			s.lost, s.junk = max(s.lost, index), append(s.junk, path)
		default:
			return nil, err
		}
	}
	slices.SortFunc(s.list, newer)
	return s, nil
}

// newer orders snapshots from the newest to the oldest, as raft orders the ends of logs: by term, then by
// index. Of two of one index, which have the same content, the one that was made later is the newer one.
func newer(a, b *snapshot) int {
	return cmp.Or(cmp.Compare(b.meta.Term, a.meta.Term), cmp.Compare(b.meta.Index, a.meta.Index),
		cmp.Compare(len(b.meta.ID), len(a.meta.ID)), cmp.Compare(b.meta.ID, a.meta.ID))
}

// parseSnapshotName returns the index and the time in the name of a snapshot's directory.
func parseSnapshotName(name string) (index uint64, ms int64, ok bool) {
	var term uint64
	n, err := fmt.Sscanf(name, "%d-%d-%d", &term, &index, &ms)
	return index, ms, n == 3 && err == nil && name == snapshotName(term, index, ms)
}

// snapshotName returns the name of a snapshot's directory, which is also raft's name of it. The
// time keeps two snapshots at the same index apart.
func snapshotName(term, index uint64, ms int64) string {
	return fmt.Sprintf("%d-%d-%d", term, index, ms)
}

// The file meta.json is {"crc32c": ..., "snapshot": {...}}. The checksum is of the bytes of the
// object after "snapshot".
type metaFile struct {
	CRC      uint32          `json:"crc32c"`
	Snapshot json.RawMessage `json:"snapshot"`
}

// A metaBody is the object "snapshot" in meta.json: what raft wants to know of a snapshot, and how
// far the state in it is. Part of the format; fields are added, and never renamed.
type metaBody struct {
	Format             int          `json:"format"`
	ID                 string       `json:"id"`
	Index              uint64       `json:"index"`
	Term               uint64       `json:"term"`
	Servers            []metaServer `json:"servers"`
	ConfigurationIndex uint64       `json:"configuration_index"`
	Size               int64        `json:"size"` // of the stream
	StateIndex         uint64       `json:"state_index"`
	StateTerm          uint64       `json:"state_term"`
}

// A metaServer is a raft.Server as meta.json has it.
type metaServer struct {
	Suffrage raft.ServerSuffrage `json:"suffrage"`
	ID       raft.ServerID       `json:"id"`
	Address  raft.ServerAddress  `json:"address"`
}

// metaFormat is the version of meta.json. A member takes a snapshot with another one for damaged,
// and gets the state again.
const metaFormat = 1

// castagnoli is the polynomial of the checksum in meta.json.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeMeta returns the bytes of meta.json.
func encodeMeta(s *snapshot) ([]byte, error) {
	m := s.meta
	b := metaBody{Format: metaFormat, ID: m.ID, Index: m.Index, Term: m.Term, ConfigurationIndex: m.ConfigurationIndex, Size: m.Size,
		StateIndex: s.state.index, StateTerm: s.state.term}
	for _, server := range m.Configuration.Servers {
		b.Servers = append(b.Servers, metaServer(server))
	}
	body, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return json.Marshal(metaFile{crc32.Checksum(body, castagnoli), body})
}

// decodeMeta returns the snapshot that meta.json describes, but for its directory.
func decodeMeta(data []byte) (*snapshot, error) {
	var f metaFile
	var b metaBody
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if crc32.Checksum(f.Snapshot, castagnoli) != f.CRC {
		return nil, errors.New("checksum mismatch")
	}
	if err := json.Unmarshal(f.Snapshot, &b); err != nil {
		return nil, err
	}
	if b.Format != metaFormat {
		return nil, fmt.Errorf("format %d", b.Format)
	}
	s := &snapshot{state: position{b.StateIndex, b.StateTerm}, meta: raft.SnapshotMeta{Version: raft.SnapshotVersionMax, ID: b.ID,
		Index: b.Index, Term: b.Term, ConfigurationIndex: b.ConfigurationIndex, Size: b.Size}}
	for _, server := range b.Servers {
		s.meta.Configuration.Servers = append(s.meta.Configuration.Servers, raft.Server(server))
	}
	return s, nil
}

// readSnapshot reads the meta.json of a directory. It does not look at the store in it: that is
// checked when the snapshot is made, and when a state is built from it.
func readSnapshot(fsys vfs.FS, dir string) (*snapshot, error) {
	name := filepath.Join(dir, metaName)
	data, err := readWhole(fsys, name)
	if err != nil {
		return nil, err
	}
	s, err := decodeMeta(data)
	if err != nil {
		return nil, base.Corruption(name, -1, "snapshot", err)
	}
	s.dir = dir
	return s, nil
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	metas := []*raft.SnapshotMeta{}
	for _, snap := range s.list {
		meta := snap.meta
		metas = append(metas, &meta)
	}
	return metas, nil
}

// newest returns the newest snapshot, or nil.
func (s *snapshots) newest() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	return s.list[0]
}

// Open implements raft.SnapshotStore: it returns the notice that raft sends of a snapshot. Restore of the
// state machine and transport.InstallSnapshot ask the result for the snapshot itself.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	snap := s.acquire(id)
	if snap == nil {
		return nil, nil, fmt.Errorf("cluster: there is no snapshot %q", id)
	}
	list, err := listFiles(s.fs, snap.store(), snap.state)
	if err == nil && list.size() != snap.meta.Size {
		err = base.Corruption(filepath.Join(id, storeName), -1, "snapshot",
			fmt.Errorf("its files have %d bytes with their names instead of %d", list.size(), snap.meta.Size))
	}
	if err != nil {
		if isDamage(err) {
			base.Wake(s.wanted)
		}
		return nil, nil, errors.Join(err, s.release(snap))
	}
	meta := snap.meta
	meta.Size = noticeSize
	return &meta, &snapshotReader{Reader: bytes.NewReader(list.notice()), list: list, snaps: s, snap: snap}, nil
}

// acquire returns the snapshot, whose files stay until release, or nil.
func (s *snapshots) acquire(id string) *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(snap *snapshot) bool { return snap.meta.ID == id })
	if i < 0 {
		return nil
	}
	s.list[i].users++
	return s.list[i]
}

// release gives up what acquire has returned.
func (s *snapshots) release(snap *snapshot) error {
	s.mu.Lock()
	snap.users--
	last := snap.dropped && snap.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	return s.remove(snap.dir)
}

// A snapshotReader is an open snapshot, whose notice it reads. It keeps the snapshot's files until Close.
type snapshotReader struct {
	io.Reader
	list  *fileList
	snaps *snapshots
	snap  *snapshot
	once  sync.Once
}

// Close implements io.Closer.
func (r *snapshotReader) Close() (err error) {
	r.once.Do(func() { err = r.snaps.release(r.snap) })
	return err
}

// Create implements raft.SnapshotStore.
//
// Nothing is on the disk before the sink is closed, but for what a checkpoint or a transfer has put
// there.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration, serversIndex uint64,
	_ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("cluster: snapshot of version %d, and this program makes %d", version, raft.SnapshotVersionMax)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := s.now().UnixMilli()
	for _, snap := range s.list { // the clock may have been set back, and may be coarse
		if at, last, _ := parseSnapshotName(snap.meta.ID); at == index {
			ms = max(ms, last+1)
		}
	}
	return &snapshotSink{snaps: s, meta: raft.SnapshotMeta{Version: version, ID: snapshotName(term, index, ms),
		Index: index, Term: term, Configuration: servers.Clone(), ConfigurationIndex: serversIndex}}, nil
}

// tempDir makes an empty directory for a snapshot in the making.
func (s *snapshots) tempDir() (string, error) {
	dir := s.tempName()
	return dir, s.fs.MkdirAll(dir)
}

// tempName returns a name that nobody has. Open has swept all of them.
func (s *snapshots) tempName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.temps++
	return filepath.Join(s.dir, strconv.Itoa(s.temps)+tempSuffix)
}

// remove removes a directory, which stops counting in one step. Requires: mu is not held.
func (s *snapshots) remove(dir string) error {
	return removeAs(s.fs, dir, s.tempName())
}

// add makes a finished snapshot count, and removes the oldest ones. Those before a snapshot that was received are of no
// use: the log does not reach back to them, and they keep tables of a state that is replaced.
//
// A snapshot that somebody reads is marked as dropped, and its files go with the last reader: a
// transfer to a slow member must not lose them in the middle.
func (s *snapshots) add(snap *snapshot, own bool) error {
	keep := snapshotsKept
	if !own {
		keep = 1
	}
	s.mu.Lock()
	s.list = append(s.list, snap)
	slices.SortFunc(s.list, newer)
	kept := min(keep, len(s.list))
	unused := slices.DeleteFunc(slices.Clone(s.list[kept:]), func(old *snapshot) bool {
		old.dropped = true
		return old.users > 0 // it goes with its last reader
	})
	s.list = slices.Clone(s.list[:kept])
	s.mu.Unlock()
	var errs []error
	for _, old := range unused {
		errs = append(errs, s.remove(old.dir))
	}
	return errors.Join(errs...)
}

// clear removes the snapshots that are damaged. It is for the time before raft starts.
func (s *snapshots) clear() error {
	for _, dir := range s.junk {
		if err := s.remove(dir); err != nil {
			return err
		}
	}
	s.junk, s.lost = nil, 0
	return nil
}

// drop takes a damaged snapshot out of the list. Its files stay until clear.
func (s *snapshots) drop(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(other *snapshot) bool { return other == snap })
	s.lost, s.junk = max(s.lost, snap.meta.Index), append(s.junk, snap.dir)
}
