package tree

import (
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A journal is the manifest that edits are appended to.
type journal struct {
	log    *manifest.Log // nil if the store is read-only
	num    base.FileNum
	state  *manifest.State // what the manifest says
	broken bool            // an append failed, or beginning a new one: the next edit tries to begin one
	limit  int64           // past this size a manifest is replaced by a snapshot of the state
	// doubtful are tables and sidecars that a torn manifest may name. They are obsolete
	// with the next manifest.
	doubtful []Obsolete
}

// maxManifestSize is the size past which a manifest is replaced by a snapshot of the
// state, if that is much smaller.
const maxManifestSize = 1 << 20

// AppendEdit makes an edit durable that does not change the tables.
func (t *Tree) AppendEdit(edit *manifest.Edit) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	return t.append(edit, t.version.Meta, true)
}

// NoteLog tells the manifest of a log, without waiting for the disk. Logs are
// found by their names and tell the lengths of their predecessors, so if the
// manifest can't be written now, it is enough that the next one will know.
func (t *Tree) NoteLog(newLog base.FileNum, sealed *manifest.SealedLog) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	edit := &manifest.Edit{NewLog: newLog, SealedLog: sealed}
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

// append writes an edit to the manifest. If that fails, a new manifest with the state
// after the edit takes its place: nothing is ever appended after what may be torn.
// Requires: editing is held.
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
		err := j.log.Append(edit, sync)
		if err == nil {
			j.state = state
			return nil
		}
		t.env.Failed("manifest", err)
	}
	// Should the new one fail, CURRENT may name it all the same: nothing may
	// be appended to the old one then.
	j.broken = true
	return t.newManifest(state)
}

// newManifest begins a manifest with a snapshot of state. Requires: editing is held.
func (t *Tree) newManifest(state *manifest.State) error {
	num := t.NewFileNum()
	state.NextFileNum = t.PeekFileNum()
	state.LastSeq = max(state.LastSeq, t.env.Visible())
	log, err := manifest.Create(t.env.FS, t.env.Dir, num, state)
	if err != nil {
		return fmt.Errorf("shale: begin manifest: %w", err)
	}
	old := t.journal
	t.journal = journal{log: log, num: num, state: state, limit: max(maxManifestSize, 4*log.Size())}
	if old.log == nil {
		return nil
	}
	_ = old.log.Close() // superseded: whatever it holds is in the new one
	t.env.Obsolete(Obsolete{Name: base.ManifestName(old.num)})
	t.env.Obsolete(old.doubtful...)
	t.env.Remove()
	return nil
}

// keepDoubtful keeps the files of tables and sidecars that a torn manifest may name or
// not, until a new manifest says that they are not needed. Requires: editing is held.
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

// BeginManifest begins the manifest of a store that has been loaded.
func (t *Tree) BeginManifest(state *manifest.State) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	return t.newManifest(state)
}

// RenewManifest makes the next edit begin a new manifest, as if this one were too long.
func (t *Tree) RenewManifest() {
	t.editing.Lock()
	defer t.editing.Unlock()
	t.journal.limit = 0
}

// WithState calls fn with what the manifest says. Meanwhile no version, and no log of the
// manifest's, comes or goes. fn keeps nothing of the state.
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

// CloseManifest marks the manifest as whole, unless the store has failed, and closes it.
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
