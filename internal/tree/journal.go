package tree

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A journal is the manifest that edits are appended to.
// All fields are guarded by the tree's editing lock.
type journal struct {
	log    *manifest.Log // nil if the store is read-only
	num    base.FileNum
	state  *manifest.State // the state after all edits in the manifest
	broken bool            // an append failed, or the creation of a new manifest did: the next edit begins a new one
	limit  int64           // bytes; an edit after this size begins a new manifest, with a snapshot of the state
	// doubtful are files of tables and sidecars that a torn manifest may
	// name, and manifests whose creation has failed, which CURRENT may name.
	// Once the next manifest is in use, nothing needs them.
	doubtful []Obsolete
}

// maxManifestSize is the size in bytes at which a manifest is replaced by a snapshot
// of the state. If the snapshot is large, the limit is four times its size instead.
const maxManifestSize = 1 << 20

// AppendEdit makes an edit durable that does not change the tables.
func (t *Tree) AppendEdit(edit *manifest.Edit) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	return t.append(edit, t.version.Meta, true)
}

// NoteLog records a new log in the manifest, and its sealed
// predecessor if there is one. It does not wait for the disk.
//
// If the manifest can't be written now, that is no error: recovery finds logs
// by their names, and each log states the length of its predecessor. NoteLog
// then changes the state in memory, so that the next manifest has the log.
func (t *Tree) NoteLog(newLog base.FileNum, sealed *manifest.SealedLog) error {
	edit := &manifest.Edit{NewLog: newLog, SealedLog: sealed}
	t.editing.Lock()
	defer t.editing.Unlock()
	err := t.append(edit, t.version.Meta, false)
	if !t.journal.broken {
		return err
	}
	state, err := t.journal.state.Apply(edit, t.version.Meta)
	if err == nil {
		t.journal.state = state
	}
	return err
}

// append writes an edit to the manifest. after is the version after the edit.
//
// If the write fails, a new manifest with the state after the edit replaces the
// old one. The failed write may have left half an edit at the end of the file,
// and nothing may ever be appended after that. Requires: editing is held.
func (t *Tree) append(edit *manifest.Edit, after *manifest.Version, sync bool) error {
	j := &t.journal
	if j.log == nil {
		return base.ErrReadOnly
	}
	edit.NextFileNum = t.PeekFileNum()
	state, err := j.state.Apply(edit, after)
	if err != nil {
		return fmt.Errorf("shale: apply version edit: %w", err)
	}
	if j.log.Size() < j.limit && !j.broken {
		j.broken = true // until the edit is there as a whole: the file system may panic
		err := j.log.Append(edit, sync)
		if err == nil {
			j.broken, j.state = false, state
			return nil
		}
		t.env.Failed("manifest", err)
	}
	// This is set before the new manifest begins. If that fails
	// half-way, CURRENT may name the new manifest all the same,
	// and an edit that is appended to the old one would be lost.
	j.broken = true
	return t.newManifest(state)
}

// newManifest begins a manifest with a snapshot of state, and makes the
// old manifest and its doubtful files obsolete. Requires: editing is held.
func (t *Tree) newManifest(state *manifest.State) error {
	num := t.NewFileNum()
	state.NextFileNum = t.PeekFileNum()
	state.LastSeq = max(state.LastSeq, t.env.Visible())
	created := false
	defer func() {
		if !created { // it may be there, also if the file system has panicked
			t.journal.doubtful = append(t.journal.doubtful, Obsolete{Name: base.ManifestName(num)})
		}
	}()
	log, err := manifest.Create(t.env.FS, t.env.Dir, num, state)
	if err != nil {
		return fmt.Errorf("shale: begin manifest: %w", err)
	}
	created = true
	old := t.journal
	t.journal = journal{log: log, num: num, state: state, limit: max(maxManifestSize, 4*log.Size())}
	if old.log == nil {
		return nil
	}
	_ = old.log.Close() // superseded: the new manifest has everything in it
	t.env.Obsolete(Obsolete{Name: base.ManifestName(old.num)})
	t.env.Obsolete(old.doubtful...)
	t.env.Remove()
	return nil
}

// keepDoubtful keeps the files of tables and sidecars whose edit has
// failed. The torn manifest may name them, so they must exist until
// a new manifest is in use that does not. Requires: editing is held.
func (t *Tree) keepDoubtful(tables []*Table, sidecars []*Sidecar) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := &t.journal
	for _, table := range tables {
		delete(t.pending, table.Meta.Num)
		j.doubtful = append(j.doubtful, Obsolete{Name: base.TableName(table.Meta.Num)})
	}
	for _, s := range sidecars {
		delete(t.pending, s.Meta.Num)
		j.doubtful = append(j.doubtful, Obsolete{Name: base.FilterName(s.Meta.Num)})
	}
}

// BeginManifest begins a new manifest after Load. state is what recovery has found.
func (t *Tree) BeginManifest(state *manifest.State) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	return t.newManifest(state)
}

// RenewManifest makes the next edit begin a new manifest, as if this one were too large.
func (t *Tree) RenewManifest() {
	t.editing.Lock()
	defer t.editing.Unlock()
	t.journal.limit = 0
}

// WithState calls fn with the state in the manifest. During the call no version
// is installed and no log is recorded. fn must not keep any part of the state.
func (t *Tree) WithState(fn func(state *manifest.State)) {
	t.editing.Lock()
	defer t.editing.Unlock()
	fn(t.journal.state)
}

// Abandon closes the manifest of a store whose Open has failed.
func (t *Tree) Abandon() {
	if log := t.journal.log; log != nil {
		_ = log.Close() // the error of Open is the one to report
	}
}

// CloseManifest closes the manifest. Unless the store has
// failed, it first writes a mark that the manifest is complete.
func (t *Tree) CloseManifest(failed bool) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	j := &t.journal
	if j.log == nil {
		return nil
	}
	var err error
	if !failed && !j.broken {
		err = j.log.Finish()
	}
	if cerr := j.log.Close(); err == nil {
		err = cerr
	}
	return err
}
