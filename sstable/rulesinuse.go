package sstable

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
)

// RulesInUse knows by which rules the filters in memory know prefixes. A store has one for all of
// its tables. So a scan can find out whether any filter could deny its prefix without looking at
// the tables, of which there may be 100,000.
//
// Readers keep it up to date: a rule is added before its filter can be found, and taken out after
// the last such filter was given up. The zero value is ready, and has no rules. A nil *RulesInUse
// counts nothing. All methods may be called concurrently.
type RulesInUse struct {
	all atomic.Pointer[[]base.PrefixRule] // replaced, never changed; nil: there are none

	mu      sync.Mutex // guards filters, and changes of all
	filters map[base.PrefixRule]int
}

// All returns the rules in use, in no particular order. It takes no lock. The caller must not
// change the result.
func (u *RulesInUse) All() []base.PrefixRule {
	if all := u.all.Load(); all != nil {
		return *all
	}
	return nil
}

// add counts n more filters with a rule; n may be negative. The zero rule is none.
func (u *RulesInUse) add(rule base.PrefixRule, n int) {
	if u == nil || rule == (base.PrefixRule{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	was := u.filters[rule]
	if u.filters == nil {
		u.filters = make(map[base.PrefixRule]int)
	}
	u.filters[rule] = was + n
	switch {
	case was+n == 0:
		delete(u.filters, rule)
		rest := slices.DeleteFunc(slices.Clone(u.All()), func(r base.PrefixRule) bool { return r == rule })
		u.all.Store(&rest)
	case was == 0:
		more := append(slices.Clone(u.All()), rule)
		u.all.Store(&more)
	}
}
