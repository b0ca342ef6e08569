package damage

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
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/test/harness"
	"github.com/shaledb/shale/vfs"
	"github.com/shaledb/shale/vfs/faultfs"
)

// A loss is damage that is done to a copy of a store.
type loss struct {
	what  string
	files []string // one of which a finding must name
	apply func(mem *vfs.Mem) error
	// harmless: what is changed is nobody's, such as what lies behind the end of a log.
	harmless bool
	// inject, if not nil, fails operations; restart is called before each pass over the store.
	inject  func(op vfs.Op, name string) error
	restart func()
	// twice: without a manifest, it cannot be known what else is missing.
	twice bool
}

func (d loss) String() string { return strings.Join(d.files, ", ") + ": " + d.what }

// reading are the operations that leave a folder as it is.
var reading = []vfs.Op{vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat, vfs.OpClose, vfs.OpLockShared, vfs.OpUnlock}

// A recorder notes operations that would change the damaged store.
type recorder struct {
	*faultfs.FS
	mu     sync.Mutex
	writes []string
}

func record(mem *vfs.Mem, inject func(op vfs.Op, name string) error) *recorder {
	r := &recorder{}
	r.FS = faultfs.New(mem, func(op vfs.Op, name string, _ int64) error {
		if inject != nil {
			if err := inject(op, name); err != nil {
				return err
			}
		}
		if (name == harness.Dir || strings.HasPrefix(name, harness.Dir+"/")) && !slices.Contains(reading, op) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.writes = append(r.writes, fmt.Sprint(op, " ", name))
		}
		return nil
	})
	return r
}

// try damages a copy, checks and repairs it, and returns what is wrong with the outcome.
func (b *lostStore) try(d loss) (outcome string, err error) {
	mem := b.mem.Crash(harness.KeepAll)
	if err := d.apply(mem); err != nil {
		return "", err
	}
	before, err := harness.Files(mem, harness.Dir)
	if err != nil {
		return "", err
	}
	fsys := record(mem, d.inject)
	run := func(into string, doubtful bool) (*repair.Report, error) {
		if d.restart != nil {
			d.restart()
		}
		return repair.Run(context.Background(), harness.Dir, into, &repair.Options{FS: fsys, Doubtful: doubtful})
	}
	if d.restart != nil {
		d.restart()
	}
	checked, err := repair.Check(context.Background(), harness.Dir, &repair.Options{FS: fsys})
	if err == nil {
		err = b.checkFindings(d, checked, maps.Equal(before, b.files) && d.inject == nil)
	}
	if err != nil {
		return "", fmt.Errorf("Check: %w", err)
	}
	strict, err := run("strict", false)
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
	if damaged := slices.ContainsFunc(strict.Findings, func(f repair.Finding) bool { return f.Damage() }); checked.Damaged() != damaged && outcome != "whole" {
		return "", fmt.Errorf("Check found %v, Run %v", checked.Findings, strict.Findings)
	}
	all, err := run("all", true)
	if err != nil {
		return "", fmt.Errorf("Run of the doubtful too: %w", err)
	}
	taken, err := contents(mem, "all")
	if err == nil {
		err = b.checkDoubtful(strict, all, kept, taken)
	}
	if err != nil {
		return "", fmt.Errorf("the doubtful too: %w", err)
	}
	after, err := harness.Files(mem, harness.Dir)
	switch {
	case err != nil:
		return "", err
	case len(fsys.writes) > 0:
		return "", fmt.Errorf("the damaged store was changed: %q", fsys.writes)
	case !maps.Equal(after, before):
		return "", errors.New("files of the damaged store have changed")
	case mem.OpenFiles() != 0:
		return "", fmt.Errorf("%d files are left open", mem.OpenFiles())
	}
	return outcome, nil
}

// contents reads a store.
func contents(mem *vfs.Mem, dir string) (got harness.State, err error) {
	db, err := shale.Open(dir, &shale.Options{FS: mem, ReadOnly: true, Exist: shale.MustExist})
	if err != nil {
		return got, err
	}
	got, err = harness.Read(db)
	return got, errors.Join(err, db.Close())
}

// checkFindings looks for a finding for each damaged file, and for an end of each finding.
func (b *lostStore) checkFindings(d loss, r *repair.CheckReport, unchanged bool) error {
	named := false
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Damage() && slices.Contains(d.files, f.File) {
			named = true
		}
		if f.Harm == repair.LostState && slices.Contains(d.files, "CURRENT") {
			named = true // it names a manifest that is not there
		}
		if f.File == "" || f.Err == nil || f.What() == "" || f.Meaning(harness.Show) == "" {
			return fmt.Errorf("a finding says nothing: %+v", f)
		}
	}
	switch {
	case unchanged && r.Damaged():
		return fmt.Errorf("nothing is damaged, but %v", r.Findings)
	case !unchanged && !d.harmless && !named:
		return fmt.Errorf("no finding names %v: %+v", d.files, r.Findings)
	}
	return nil
}

// checkStrict compares what was saved with the state that the report claims: it must hold nothing
// else, and what it lacks must be accounted for.
func (b *lostStore) checkStrict(d loss, r *repair.Report, got harness.State) (outcome string, err error) {
	last := len(b.states) - 1
	if uint64(got.Len()) != r.Keys {
		return "", fmt.Errorf("%d keys, the report says %d", got.Len(), r.Keys)
	}
	if r.AsOf > b.lasts[last] {
		return "", fmt.Errorf("as of %d, the last commit is %d", r.AsOf, b.lasts[last])
	}
	n := b.after(r.AsOf)
	err = b.isState(n, d, r, got)
	for later := n + 1; err != nil && r.AtLeast && later <= last; later++ {
		if b.isState(later, d, r, got) == nil {
			n, err = later, nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("as of %d, at least %v: %w", r.AsOf, r.AtLeast, err)
	}
	behind := slices.ContainsFunc(r.Findings, func(f repair.Finding) bool { return f.Harm >= repair.LostCommits })
	complete := got.Len() == b.states[n].Len()
	switch {
	case n < b.safe && !behind:
		return "", fmt.Errorf("as of commit %d without a word; %d are safe", n, b.safe)
	case r.Whole() && !complete:
		return "", errors.New("the report calls it whole")
	case r.Whole():
		return "whole", nil
	case got.Len() == 0:
		return "nothing", nil
	case n == last && complete:
		return "everything", nil
	case n == last:
		return "some keys lost", nil
	}
	return "an earlier state", nil
}

// isState returns nil if got is the state after n commits but for keys that the report explains.
func (b *lostStore) isState(n int, d loss, r *repair.Report, got harness.State) error {
	missing := harness.Without(b.states[n], got)
	if err := harness.Without(b.states[n], missing).Diff(got); err != nil {
		return fmt.Errorf("after commit %d: %w", n, err)
	}
	for _, e := range missing.Entries() {
		if !explains(r, []byte(e.Key)) && !(d.twice && r.Manifest == "") {
			return fmt.Errorf("key %q, there after commit %d, is missing without a word: %+v", e.Key, n, r)
		}
	}
	return nil
}

// explains reports whether the report says why key is not there.
func explains(r *repair.Report, key []byte) bool {
	return slices.ContainsFunc(r.Findings, func(f repair.Finding) bool {
		return f.Harm == repair.LostEntries && f.Keys.Contains(key) || f.Harm == repair.LostCommits && r.Manifest == ""
	}) || slices.ContainsFunc(r.Left, func(l repair.Left) bool {
		return l.Commits == 0 && l.Keys.Contains(key) || l.Commits > 0 && r.Manifest == ""
	})
}

// checkDoubtful: whatever is taken was once written, and nothing is taken when nothing is doubtful.
func (b *lostStore) checkDoubtful(strict, all *repair.Report, kept, taken harness.State) error {
	for _, e := range taken.Entries() {
		if !b.written[e] {
			return fmt.Errorf("key %q never was %.20q", e.Key, e.Value)
		}
	}
	if len(strict.Left) == 0 && !kept.Equal(taken) {
		return fmt.Errorf("nothing was left, but %w", kept.Diff(taken))
	}
	if strict.AsOf != all.AsOf || strict.AtLeast != all.AtLeast {
		return fmt.Errorf("the reports differ: %+v, %+v", strict, all)
	}
	return nil
}
