package remote

import (
	"errors"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// The manifest of a Reader's directory in memory. It has the edits of the steps, and in addition
// what the writer never says of a log: how far it may be read.

// A localManifest is the manifest that a follower writes for a read-only handle. A step appends its edit, which
// costs the handle as much as the edit is long. If the manifest does not lead to the newest state, or has
// become long, another one takes its place.
type localManifest struct {
	log      *manifest.Log // nil: the next write makes one
	num      base.FileNum
	snapshot int64 // the size with which it began
	edits    []*manifest.Edit
	minLog   base.FileNum
	last     base.Seq        // what the manifest says about sequence numbers
	state    *manifest.State // the newest one
	open     []manifest.LogInfo
}

// restart makes the next write begin another manifest.
// The handle follows CURRENT to it, and reads the whole state once.
func (m *localManifest) restart() {
	if m.log != nil {
		_ = m.log.Close() // it is in memory
	}
	m.log, m.edits = nil, nil
}

// later notes the edit of a step, for the next write.
// Only what changes tables is taken over. What the writer's manifest says of its logs and numbers
// is not true of this directory.
func (m *localManifest) later(e *manifest.Edit) {
	if e != nil {
		m.edits = append(m.edits, &manifest.Edit{
			Removed: e.Removed, Added: e.Added, Sidecars: e.Sidecars, Finished: e.Finished, Spans: e.Spans,
			Clock: e.Clock,
		})
	}
}

// write makes the manifest say what state says of the tables, that logs below MinLog are not needed, and that
// everything up to the sequence number last is there.
func (m *localManifest) write(mem *vfs.Mem, dir string, state *object.State, minLog, last uint64) error {
	m.state, m.minLog, m.last = state.Tables, base.FileNum(minLog), base.Seq(last)
	// Logs are announced in the order of their numbers, so those that nobody needs stand first.
	for len(m.open) > 0 && m.open[0].Num < m.minLog {
		m.open = m.open[1:]
	}
	// However many steps come, the manifest takes little more memory than twice the state.
	if m.log != nil && m.log.Size() > 2*m.snapshot+1<<20 {
		m.restart()
	}
	if m.log == nil {
		return m.create(mem, dir)
	}
	// The tables come before the edit that lets a log go whose writes they have.
	for _, e := range m.edits {
		if err := m.append(e); err != nil {
			m.restart()
			return err
		}
	}
	m.edits = nil
	return m.append(&manifest.Edit{MinLog: m.minLog, LastSeq: m.last})
}

// create begins a manifest with all that is known.
func (m *localManifest) create(mem *vfs.Mem, dir string) error {
	m.num++
	log, err := manifest.Create(mem, dir, m.num, &manifest.State{
		Version: m.state.Version, StoreID: m.state.StoreID, NextFileNum: m.state.NextFileNum, LastSeq: m.last, MinLog: m.minLog, Logs: m.open,
		Clock: m.state.Clock,
	})
	if err != nil {
		return err
	}
	m.log, m.snapshot, m.edits = log, log.Size(), nil
	return nil
}

// append appends an edit.
func (m *localManifest) append(e *manifest.Edit) error {
	e.NextFileNum = m.state.NextFileNum
	return m.log.Append(e, false)
}

// note says that everything up to a sequence number is there.
func (m *localManifest) note(last uint64) error {
	if base.Seq(last) <= m.last {
		return nil
	}
	m.last = base.Seq(last)
	return m.append(&manifest.Edit{LastSeq: m.last})
}

// length returns how long a log is that was announced, is needed, and has ended; 0: there is no such log.
func (m *localManifest) length(log uint64) int64 {
	for _, l := range m.open {
		if l.Num == base.FileNum(log) {
			return l.Length
		}
	}
	return 0
}

// before returns the newest log below a number that was announced and is needed, or a zero LogInfo.
func (m *localManifest) before(log uint64) (before manifest.LogInfo) {
	for _, l := range m.open {
		if l.Num < base.FileNum(log) {
			before = l
		}
	}
	return before
}

// announce says that there is a log.
func (m *localManifest) announce(log uint64) error {
	m.open = append(m.open, manifest.LogInfo{Num: base.FileNum(log)})
	return m.append(&manifest.Edit{NewLog: base.FileNum(log)})
}

// end says how long a log is to which nothing more is written.
func (m *localManifest) end(log uint64, length int64, lastSeq uint64) error {
	for i := range m.open {
		if l := &m.open[i]; l.Num == base.FileNum(log) {
			l.Sealed, l.Length, l.LastSeq = true, length, base.Seq(lastSeq)
			return m.append(&manifest.Edit{SealedLog: &manifest.SealedLog{Num: l.Num, Length: length, LastSeq: l.LastSeq}})
		}
	}
	if base.FileNum(log) < m.minLog {
		return nil
	}
	return errors.New("a log ends that has not begun")
}
