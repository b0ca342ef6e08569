package shale

import (
	"bytes"
	"maps"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// nextVersion describes meta by the runs and sidecars of the old version and what
// has come: tables that are new, or new in their run, and sidecars. Runs that
// stay are shared, and a run that changes takes over what stays in it without
// a look at the tables. With 50,000 tables in the last level a flush takes 4 µs
// so, where a visit of all took 8 ms.
func nextVersion(old *version, meta *manifest.Version, come map[base.FileNum]*table, beside []*sidecar, epoch uint64) *version {
	b := versionBuilder{old: old, come: come, epoch: epoch, used: make(map[*run]bool, len(old.runs))}
	v := &version{meta: meta}
	for level := range meta.Levels {
		for nth, mr := range meta.Levels[level].Runs {
			if len(mr.Tables) > 0 {
				v.runs = append(v.runs, b.run(level, nth, mr))
			}
		}
	}
	for _, r := range old.runs {
		if !b.used[r] {
			b.left = append(b.left, r.tables...)
		}
	}
	v.sidecars = b.sidecars(beside)
	v.refs.Store(1)
	return v
}

// A versionBuilder makes the runs of the version after old.
type versionBuilder struct {
	old   *version
	come  map[base.FileNum]*table
	epoch uint64 // of filters

	used map[*run]bool // runs of old that are shared or have a successor
	left []*table      // were in old's runs; they may be in others now, or in theirs with a sidecar
	anew []placed      // the opposite
}

// A placed is a table as the manifest describes it in its new place.
type placed struct {
	meta  *manifest.Table
	table *table
}

// run returns the run that mr describes.
func (b *versionBuilder) run(level, nth int, mr manifest.Run) *run {
	old := new(run)
	for _, r := range b.old.runs {
		if r.level == level && r.id == mr.ID {
			old = r
		}
	}
	b.used[old] = true
	n := len(mr.Tables)
	if old.nth == nth && len(old.metas) == n && &old.metas[0] == &mr.Tables[0] {
		return old
	}
	r := layout(level, nth, mr.Tables[0].Smallest, mr.Tables[n-1].Largest, n)
	r.id, r.metas = mr.ID, mr.Tables
	left, anew := len(b.left), len(b.anew)
	b.fill(r, old)

	r.keys = old.keys
	sum, known := old.filterSum(b.epoch)
	for _, t := range b.left[left:] {
		r.keys -= t.meta.Keys
		sum.add(t, -1)
	}
	for _, p := range b.anew[anew:] {
		r.keys += p.table.meta.Keys
		sum.add(p.table, 1)
	}
	if known {
		r.filters.Store(&sum)
	}
	return r
}

// fill takes over what stays in the run from old, which may be empty. Both are
// in the order of keys.
func (b *versionBuilder) fill(r, old *run) {
	j, sameHeads := 0, bytes.Equal(r.bounds.Prefix, old.bounds.Prefix)
	for i, m := range r.metas {
		for ; j < len(old.metas) && old.metas[j] != m; j++ {
			if o := old.metas[j]; o.Num == m.Num || bytes.Compare(o.Largest, m.Smallest) >= 0 {
				break
			}
			b.left = append(b.left, old.tables[j])
		}
		switch {
		case j < len(old.metas) && old.metas[j] == m:
			if sameHeads {
				r.tables[i] = old.tables[j]
				r.bounds.Largest[i], r.bounds.Smallest[i] = old.bounds.Largest[j], old.bounds.Smallest[j]
			} else {
				r.put(i, old.tables[j])
			}
			j++
		case j < len(old.metas) && old.metas[j].Num == m.Num: // it has another sidecar
			r.put(i, old.tables[j])
			b.left, b.anew = append(b.left, old.tables[j]), append(b.anew, placed{m, old.tables[j]})
			j++
		default:
			r.put(i, b.come[m.Num])
			b.anew = append(b.anew, placed{m, b.come[m.Num]})
		}
	}
	b.left = append(b.left, old.tables[j:]...)
}

// sidecars returns those of the new version. The map is the old one's if they are
// the same.
func (b *versionBuilder) sidecars(beside []*sidecar) map[base.FileNum]*sidecar {
	fresh := make(map[*manifest.Sidecar]*sidecar, len(beside))
	for _, s := range beside {
		fresh[s.meta] = s
	}
	next := make(map[base.FileNum]*sidecar)
	for _, p := range b.anew {
		if p.meta.Sidecar == nil {
			continue
		}
		if s := fresh[p.meta.Sidecar]; s != nil {
			next[p.meta.Num] = s
		} else {
			next[p.meta.Num] = b.old.sidecars[p.meta.Num]
		}
	}
	if len(next) == 0 && len(b.old.sidecars) == 0 {
		return b.old.sidecars
	}
	all := maps.Clone(b.old.sidecars)
	if all == nil {
		return next
	}
	for _, t := range b.left {
		delete(all, t.meta.Num)
	}
	maps.Copy(all, next)
	return all
}
