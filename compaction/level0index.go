package compaction

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/shaledb/shale/manifest"
)

// A level0Index finds tables of level 0 by their keys and their age. A query takes a time that
// is about logarithmic in the number of runs and in the number of tables of a run. Ingestions
// can leave thousands of runs there, or a run of a hundred thousand tables, and a pick that
// looked at all of them would hold the lock of the scheduler for long.
//
// It is a treap of runs: a binary search tree by their smallest keys, and a heap by random
// priorities, which keep it balanced (Seidel and Aragon, "Randomized Search Trees", 1996).
// Each node sums up the runs below it, so that a query passes over those it does not need.
//
// The owner of an InFlight owns it, and guards it with a lock.
type level0Index struct {
	runs []manifest.Run // level 0 as of the last update
	root *runNode
	work int // comparisons of keys, which tests count
}

// A runNode is a run of level 0, and the root of a subtree of runs.
type runNode struct {
	run         manifest.Run
	priority    uint64
	left, right *runNode

	// Sums over the runs of the subtree.
	oldest, newest uint64 // the lowest and the highest ID
	first          []byte // the smallest key of all
	last           []byte // the largest key of all
	firstEnd       []byte // of the tables' largest keys the smallest
	lastStart      []byte // of the tables' smallest keys the largest
}

// A young is a table of level 0.
type young struct {
	*manifest.Table
	run uint64 // the ID of its run
}

func (x *level0Index) compare(a, b []byte) int {
	x.work++
	return bytes.Compare(a, b)
}

// find is manifest.Run.Find, counted.
func (x *level0Index) find(run *manifest.Run, key []byte) int {
	for n := len(run.Tables); n > 0; n /= 2 {
		x.work++
	}
	return run.Find(key)
}

// update makes the index describe runs, which are level 0 of a version. Between versions
// that follow each other only a few runs differ, and only these cost more than a look.
func (x *level0Index) update(runs []manifest.Run) {
	if !sameSlice(x.runs, runs) {
		c := Level0Change{from: x.runs, to: runs}
		c.Prepare()
		x.apply(&c)
	}
}

// A Level0Change leads a level0Index from one version to a later one. Prepare does what takes
// time in proportion to the number of runs, and needs no lock:
//
//	c := busy.Level0Change(v)  // with the lock that guards busy
//	c.Prepare()                // without it
//	busy.Learn(c)              // with it
//
// Without these calls the next pick does all of this itself.
type Level0Change struct {
	from, to   []manifest.Run
	gone, come []*manifest.Run
	whole      *level0Index // of all runs, if so many differ that it is made anew
}

// fewYoung is the number of runs of level 0 up to which a pick brings the index up to date itself.
const fewYoung = 64

// mostMoved is how many runs at most are moved one by one, in less than a millisecond.
const mostMoved = 256

// Level0Change returns how level 0 of v differs from what picks know of it, or nil if they know it,
// or if there is little to know.
func (f *InFlight) Level0Change(v *manifest.Version) *Level0Change {
	runs := v.Levels[0].Runs
	if f.index == nil || sameSlice(f.index.runs, runs) || max(len(f.index.runs), len(runs)) <= fewYoung {
		return nil
	}
	return &Level0Change{from: f.index.runs, to: runs}
}

// Prepare finds out what has changed.
func (c *Level0Change) Prepare() {
	if len(c.from) > 0 {
		c.compare()
	}
	if len(c.from) == 0 || len(c.gone)+len(c.come) > mostMoved {
		c.whole = new(level0Index)
		c.whole.build(c.to)
	}
}

// compare sets gone and come.
func (c *Level0Change) compare() {
	old, runs := c.from, c.to
	for len(old) > 0 || len(runs) > 0 {
		switch {
		case len(runs) == 0 || len(old) > 0 && old[0].ID > runs[0].ID:
			c.gone = append(c.gone, &old[0])
			old = old[1:]
		case len(old) == 0 || runs[0].ID > old[0].ID:
			c.come = append(c.come, &runs[0])
			runs = runs[1:]
		default:
			if !sameSlice(old[0].Tables, runs[0].Tables) {
				c.gone, c.come = append(c.gone, &old[0]), append(c.come, &runs[0])
			}
			old, runs = old[1:], runs[1:]
		}
	}
}

// Learn makes picks know what c has found out, unless they have learnt something else since c was
// made. c may be nil.
func (f *InFlight) Learn(c *Level0Change) {
	if c != nil && sameSlice(f.index.runs, c.from) {
		f.index.apply(c)
	}
}

// apply makes the index describe c.to. Requires: it describes c.from, and c is prepared.
func (x *level0Index) apply(c *Level0Change) {
	x.runs = c.to
	if c.whole != nil {
		x.root = c.whole.root
		x.work += c.whole.work
		return
	}
	for _, run := range c.gone {
		x.remove(run)
	}
	for _, run := range c.come {
		x.insert(*run)
	}
}

// sameSlice reports whether a and b are the same part of the same array.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// build makes the tree of all runs, with fewer comparisons than
// insert would make. Each run goes to the end of the tree's right edge.
func (x *level0Index) build(runs []manifest.Run) {
	nodes := make([]*runNode, len(runs))
	for i, run := range runs {
		nodes[i] = &runNode{run: run, priority: priorityOf(run.ID)}
	}
	slices.SortFunc(nodes, func(a, b *runNode) int {
		return cmp.Or(x.compare(a.run.Tables[0].Smallest, b.run.Tables[0].Smallest), cmp.Compare(a.run.ID, b.run.ID))
	})
	var edge []*runNode // from the root to the right
	for _, n := range nodes {
		for len(edge) > 0 && edge[len(edge)-1].priority <= n.priority {
			n.left = edge[len(edge)-1]
			edge = edge[:len(edge)-1]
		}
		if len(edge) > 0 {
			edge[len(edge)-1].right = n
		}
		edge = append(edge, n)
	}
	x.root = nil
	if len(edge) > 0 {
		x.root = edge[0]
	}
	x.refreshAll(x.root)
}

// refreshAll computes the sums of a whole subtree.
func (x *level0Index) refreshAll(n *runNode) {
	if n == nil {
		return
	}
	x.refreshAll(n.left)
	x.refreshAll(n.right)
	n.refresh(x)
}

func (x *level0Index) insert(run manifest.Run) {
	n := &runNode{run: run, priority: priorityOf(run.ID)}
	n.refresh(x)
	left, right := x.split(x.root, run.Tables[0].Smallest, run.ID)
	x.root = x.join(x.join(left, n), right)
}

func (x *level0Index) remove(run *manifest.Run) {
	key := run.Tables[0].Smallest
	left, right := x.split(x.root, key, run.ID)
	_, right = x.split(right, key, run.ID+1)
	x.root = x.join(left, right)
}

// priorityOf scatters IDs, as the finalizer of splitmix64 does. The tree
// depends on its runs alone, so picks are the same in each process.
func priorityOf(id uint64) uint64 {
	id = (id ^ id>>30) * 0xbf58476d1ce4e5b9
	id = (id ^ id>>27) * 0x94d049bb133111eb
	return id ^ id>>31
}

// split divides a subtree into the runs before a place in the order and those from it up.
// The order is by smallest key, and by ID among runs with the same one.
func (x *level0Index) split(n *runNode, key []byte, id uint64) (left, right *runNode) {
	if n == nil {
		return nil, nil
	}
	order := x.compare(n.run.Tables[0].Smallest, key)
	if order < 0 || order == 0 && n.run.ID < id {
		n.right, right = x.split(n.right, key, id)
		n.refresh(x)
		return n, right
	}
	left, n.left = x.split(n.left, key, id)
	n.refresh(x)
	return left, n
}

// join makes one subtree of two. Requires: all of left comes before all of right.
func (x *level0Index) join(left, right *runNode) *runNode {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.priority > right.priority:
		left.right = x.join(left.right, right)
		left.refresh(x)
		return left
	}
	right.left = x.join(left, right.left)
	right.refresh(x)
	return right
}

// refresh computes the sums of a node from those of its children.
func (n *runNode) refresh(x *level0Index) {
	tables := n.run.Tables
	begin, end := tables[0], tables[len(tables)-1]
	n.oldest, n.newest = n.run.ID, n.run.ID
	n.first, n.last = begin.Smallest, end.Largest
	n.firstEnd, n.lastStart = begin.Largest, end.Smallest
	for _, c := range [2]*runNode{n.left, n.right} {
		if c == nil {
			continue
		}
		n.oldest, n.newest = min(n.oldest, c.oldest), max(n.newest, c.newest)
		if x.compare(c.first, n.first) < 0 {
			n.first = c.first
		}
		if x.compare(c.last, n.last) > 0 {
			n.last = c.last
		}
		if x.compare(c.firstEnd, n.firstEnd) < 0 {
			n.firstEnd = c.firstEnd
		}
		if x.compare(c.lastStart, n.lastStart) > 0 {
			n.lastStart = c.lastStart
		}
	}
}

// A level0Block keeps a query away from the tables that overlap
// its range, except those of runs that are older than a run.
type level0Block struct {
	span
	from uint64 // the ID of that run
}

// A level0Query asks for a table of level 0 that overlaps its range,
// and no block. A range without hi has no upper bound.
type level0Query struct {
	span
	blocked []level0Block
	wanted  func(*manifest.Table) bool // the table fulfils it; nil: every table does
}

// oldest returns a table of the oldest run that has one which the query fits: the first by keys.
func (x *level0Index) oldest(q level0Query) (y young, ok bool) {
	s := level0Search{level0Index: x, level0Query: q}
	s.visit(x.root)
	return s.best, s.best.Table != nil
}

// A level0Search is a query under way, with the best table so far.
type level0Search struct {
	*level0Index
	level0Query
	best young
}

// visit looks into a subtree, and into its older part first.
func (s *level0Search) visit(n *runNode) {
	if n == nil || !s.mayFit(n) {
		return
	}
	s.look(&n.run)
	a, b := n.left, n.right
	if a == nil || b != nil && b.oldest < a.oldest {
		a, b = b, a
	}
	s.visit(a)
	s.visit(b)
}

// mayFit reports whether the subtree may have a better table than the best so far.
func (s *level0Search) mayFit(n *runNode) bool {
	if s.best.Table != nil && n.oldest > s.best.run || !s.inSpan(n, s.span) {
		return false
	}
	for _, b := range s.blocked {
		if n.oldest >= b.from && s.allOverlap(n, b.span) {
			return false
		}
	}
	return true
}

// inSpan reports whether a table of the subtree may overlap in.
func (x *level0Index) inSpan(n *runNode, in span) bool {
	return x.compare(n.last, in.lo) >= 0 && (in.hi == nil || x.compare(n.first, in.hi) <= 0)
}

// allOverlap reports whether all tables of the subtree overlap s. They do
// if all of them end after s begins, and begin before s ends.
func (x *level0Index) allOverlap(n *runNode, s span) bool {
	return x.compare(n.firstEnd, s.lo) >= 0 && x.compare(n.lastStart, s.hi) <= 0
}

// look takes the first table of the run that the query fits, if the run is older than the best.
func (s *level0Search) look(run *manifest.Run) {
	if s.best.Table != nil && run.ID > s.best.run {
		return
	}
	for i := s.find(run, s.lo); i < len(run.Tables) && (s.hi == nil || s.compare(run.Tables[i].Smallest, s.hi) <= 0); {
		t := run.Tables[i]
		if b := s.blockOf(t, run.ID); b != nil {
			i = max(i+1, s.find(run, b.hi)) // those between are blocked too
			continue
		}
		if s.wanted == nil || s.wanted(t) {
			s.best = young{t, run.ID}
			return
		}
		i++
	}
}

// blockOf returns a block that keeps the query away from t, or nil.
func (s *level0Search) blockOf(t *manifest.Table, run uint64) *level0Block {
	for i := range s.blocked {
		b := &s.blocked[i]
		if run >= b.from && s.compare(t.Smallest, b.hi) <= 0 && s.compare(t.Largest, b.lo) >= 0 {
			return b
		}
	}
	return nil
}

// upTo calls fn for the tables in runs up to newest that overlap in and do not overlap
// except, which is a part of in or empty, until fn returns false. It returns what fn did last.
func (x *level0Index) upTo(newest uint64, in, except span, fn func(young) bool) bool {
	return x.upToIn(x.root, newest, in, except, fn)
}

func (x *level0Index) upToIn(n *runNode, newest uint64, in, except span, fn func(young) bool) bool {
	if n == nil || n.oldest > newest || !x.inSpan(n, in) || except.hi != nil && x.allOverlap(n, except) {
		return true
	}
	if run := &n.run; run.ID <= newest {
		for i := x.find(run, in.lo); i < len(run.Tables) && x.compare(run.Tables[i].Smallest, in.hi) <= 0; i++ {
			t := run.Tables[i]
			if except.hi != nil && x.compare(t.Largest, except.lo) >= 0 && x.compare(t.Smallest, except.hi) <= 0 {
				i = max(i, x.find(run, except.hi)-1) // those between overlap it too
				continue
			}
			if !fn(young{t, run.ID}) {
				return false
			}
		}
	}
	return x.upToIn(n.left, newest, in, except, fn) && x.upToIn(n.right, newest, in, except, fn)
}

// overlaps returns the tables of a run of the index that overlap in.
func (x *level0Index) overlaps(run *manifest.Run, in span) []*manifest.Table {
	if x.compare(run.Tables[0].Smallest, in.hi) > 0 {
		return nil
	}
	x.find(run, in.lo)
	return run.Overlaps(in.lo, in.hi)
}

// newerThan returns the runs that are newer than a run, newest first.
func (x *level0Index) newerThan(run uint64) []manifest.Run {
	return x.runs[:sort.Search(len(x.runs), func(i int) bool { return x.runs[i].ID <= run })]
}

// level0 returns the index of v's level 0. If f keeps one, it is brought up to date.
func (f *InFlight) level0(v *manifest.Version) *level0Index {
	x := f.index
	if x == nil {
		x = new(level0Index)
	}
	x.update(v.Levels[0].Runs)
	return x
}
