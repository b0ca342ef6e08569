package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/vfs"
)

// A damage is what is done to a copy of a store.
type damage struct {
	what  string
	files []string // one of which a finding must name
	apply func(mem *vfs.Mem) error
	// harmless: what is changed is nobody's, such as what lies behind the end
	// of a log.
	harmless bool
	// inject, if not nil, fails operations; restart is called before each pass
	// over the store.
	inject  func(op vfs.Op, name string) error
	restart func()
	// twice: without a manifest, nobody knows what else is missing.
	twice bool
}

func (d damage) String() string { return strings.Join(d.files, ", ") + ": " + d.what }

// readOps are the operations that leave a folder as it is.
var readOps = []vfs.Op{vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat, vfs.OpClose, vfs.OpLockShared, vfs.OpUnlock}

// A recorder notes operations that change something in the damaged store.
type recorder struct {
	*vfs.FaultFS
	mu     sync.Mutex
	writes []string
}

func record(mem *vfs.Mem, inject func(op vfs.Op, name string) error) *recorder {
	r := &recorder{}
	r.FaultFS = vfs.NewFault(mem, func(op vfs.Op, name string, _ int64) error {
		if inject != nil {
			if err := inject(op, name); err != nil {
				return err
			}
		}
		if (name == "db" || strings.HasPrefix(name, "db/")) && !slices.Contains(readOps, op) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.writes = append(r.writes, fmt.Sprint(op, " ", name))
		}
		return nil
	})
	return r
}

// try damages a copy, checks and repairs it, and returns what is wrong with the
// outcome.
func (b *built) try(d damage) (outcome string, err error) {
	mem := b.mem.Crash(vfs.CrashConfig{Policy: vfs.KeepAll, Names: vfs.NamesKeep})
	if err := d.apply(mem); err != nil {
		return "", err
	}
	before := listDir(b.t, mem, "db")
	fsys := record(mem, d.inject)
	restart := func() {
		if d.restart != nil {
			d.restart()
		}
	}
	restart()
	checked, err := Check(context.Background(), "db", &Options{FS: fsys})
	if err == nil {
		err = b.checkFindings(d, checked.Findings, maps.Equal(before, b.files) && d.inject == nil)
	}
	if err != nil {
		return "", fmt.Errorf("Check: %w", err)
	}
	restart()
	strict, err := Run(context.Background(), "db", "strict", &Options{FS: fsys})
	if d.inject != nil && errors.Is(err, syscall.EIO) {
		return "refused", nil // what could be read is unreadable by now
	}
	if err != nil {
		return "", fmt.Errorf("Run: %w", err)
	}
	kept, err := contents(mem, "strict")
	if err != nil {
		return "", err
	}
	if outcome, err = b.checkStrict(d, strict, kept); err != nil {
		return "", err
	}
	if damaged(checked.Findings) != damaged(strict.Findings) && outcome != "whole" {
		return "", fmt.Errorf("Check found %v, Run %v", checked.Findings, strict.Findings)
	}
	restart()
	all, err := Run(context.Background(), "db", "all", &Options{FS: fsys, Doubtful: true})
	if err != nil {
		return "", fmt.Errorf("Run of the doubtful too: %w", err)
	}
	taken, err := contents(mem, "all")
	if err == nil {
		err = b.checkDoubtful(strict, all, kept, taken)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("the doubtful too: %w", err)
	case len(fsys.writes) > 0:
		return "", fmt.Errorf("the damaged store was changed: %q", fsys.writes)
	case !maps.Equal(listDir(b.t, mem, "db"), before):
		return "", errors.New("files of the damaged store have changed")
	case mem.OpenFiles() != 0:
		return "", fmt.Errorf("%d files are left open", mem.OpenFiles())
	}
	return outcome, nil
}

// contents reads a store.
func contents(mem *vfs.Mem, dir string) (map[string]string, error) {
	db, err := shale.Open(dir, &shale.Options{FS: mem, ReadOnly: true, MustExist: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	got := make(map[string]string)
	for e, err := range db.Scan(shale.Range{}) {
		if err != nil {
			return nil, err
		}
		got[string(e.Key)] = string(e.Value)
	}
	return got, nil
}

// checkFindings looks for one that names a damaged file, and for an end of each.
func (b *built) checkFindings(d damage, findings []Finding, unchanged bool) error {
	named := false
	for i := range findings {
		f := &findings[i]
		if f.Damage() && slices.Contains(d.files, f.File) {
			named = true
		}
		if f.Harm == LostState && slices.Contains(d.files, "CURRENT") {
			named = true // it names a manifest that is not there
		}
		if f.File == "" || f.Err == nil || f.What() == "" || f.Meaning(quoted) == "" {
			return fmt.Errorf("a finding says nothing: %+v", f)
		}
	}
	switch {
	case unchanged && damaged(findings):
		return fmt.Errorf("nothing is damaged, but %v", findings)
	case !unchanged && !d.harmless && !named:
		return fmt.Errorf("no finding names %v: %+v", d.files, findings)
	}
	return nil
}

func quoted(key []byte) string { return fmt.Sprintf("%q", key) }

// checkStrict compares what was saved with the state that the report claims: it
// must hold nothing else, and what it lacks must be accounted for.
func (b *built) checkStrict(d damage, r *Report, got map[string]string) (outcome string, err error) {
	if uint64(len(got)) != r.Keys {
		return "", fmt.Errorf("%d keys, the report says %d", len(got), r.Keys)
	}
	if r.AsOf > b.lasts[len(b.lasts)-1] {
		return "", fmt.Errorf("as of %d, the last commit is %d", r.AsOf, b.lasts[len(b.lasts)-1])
	}
	n := b.stateAt(r.AsOf)
	err = b.isState(n, d, r, got)
	for later := n + 1; err != nil && r.AtLeast && later < len(b.states); later++ {
		if b.isState(later, d, r, got) == nil {
			n, err = later, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("as of %d, at least %v: %w", r.AsOf, r.AtLeast, err)
	}
	want, behind := b.states[n], false
	for i := range r.Findings {
		behind = behind || r.Findings[i].Harm >= LostCommits
	}
	switch {
	case n < b.safe && !behind:
		return "", fmt.Errorf("as of commit %d without a word; %d are safe", n, b.safe)
	case r.Whole() && len(got) != len(want):
		return "", errors.New("the report calls it whole")
	case r.Whole():
		return "whole", nil
	case len(got) == 0:
		return "nothing", nil
	case n == len(b.states)-1 && len(got) == len(want):
		return "everything", nil
	case n == len(b.states)-1:
		return "some keys lost", nil
	}
	return "an earlier state", nil
}

// isState returns nil if got is the state after n commits but for keys that the
// report explains.
func (b *built) isState(n int, d damage, r *Report, got map[string]string) error {
	want := b.states[n]
	for k, v := range got {
		if w, there := want[k]; !there || w != v {
			return fmt.Errorf("key %q is %.20q, want %.20q (there: %v) after commit %d", k, v, w, there, n)
		}
	}
	for k := range want {
		if _, there := got[k]; !there && !r.explains(k) && !(d.twice && r.Manifest == "") {
			return fmt.Errorf("key %q, there after commit %d, is missing without a word: %+v", k, n, r)
		}
	}
	return nil
}

// explains tells whether the report says why key is not there.
func (r *Report) explains(key string) bool {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Harm == LostEntries && f.Keys.Contains([]byte(key)) || f.Harm == LostCommits && r.Manifest == "" {
			return true
		}
	}
	for i := range r.Left {
		l := &r.Left[i]
		if l.Commits == 0 && l.Keys.Contains([]byte(key)) || l.Commits > 0 && r.Manifest == "" {
			return true
		}
	}
	return false
}

// checkDoubtful: whatever is taken was once written, and nothing is taken when
// nothing is doubtful.
func (b *built) checkDoubtful(strict, all *Report, kept, taken map[string]string) error {
	for k, v := range taken {
		if !slices.Contains(b.versions[k], v) {
			return fmt.Errorf("key %q never was %.20q", k, v)
		}
	}
	if len(strict.Left) == 0 && !maps.Equal(kept, taken) {
		return fmt.Errorf("nothing was left, but %d keys became %d", len(kept), len(taken))
	}
	if strict.AsOf != all.AsOf || strict.AtLeast != all.AtLeast {
		return fmt.Errorf("the reports differ: %+v, %+v", strict, all)
	}
	return nil
}
