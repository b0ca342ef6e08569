package iter

import (
	"errors"
	"math"
	"slices"

	"github.com/shaledb/shale/internal/base"
)

// NewMerging returns an iterator over the entries of all iters, in order.
// Internal keys should be unique. If two children have the same one, that of the
// child which comes first in iters is returned first in the forward direction,
// and last in the backward direction. That child should be the newest source.
//
// The iterator can't change its direction in a step: Prev after a forward
// movement, and Next after a backward one, give an error. To change the direction,
// callers seek. They need a seek anyway to get past all versions of a key.
//
// Close of the result closes the children. If there is only one child, NewMerging returns it.
func NewMerging(iters ...base.Iterator) base.Iterator {
	if len(iters) == 1 {
		return iters[0]
	}
	m := new(Merging)
	m.Reset(iters)
	return m
}

// Reset makes m an iterator over all of iters, and uses the memory that it has. m owns
// the iterators from now on, but not the slice. Requires: m is closed, or was never used.
func (m *Merging) Reset(iters []base.Iterator) {
	m.children = slices.Grow(m.children[:0], len(iters))
	for _, it := range iters {
		stepper, _ := it.(base.StepSeeker)
		m.children = append(m.children, child{it: it, stepper: stepper})
	}
	m.losers = slices.Grow(m.losers[:0], len(iters))[:len(iters)]
	m.begin()
}

// errTurn is the error of a step in the wrong direction, which is a bug of the caller.
var errTurn = errors.New("iter: a merge cannot turn: seek first")

// A direction says where the children stand relative to the position.
type direction int8

const (
	nowhere  direction = iota // there is no position: no movement yet, the end, or a failure
	forward                   // every other child stands on its first entry after the position
	backward                  // every other child stands on its last entry before the position
)

// A child is a source of entries and the entry that it stands on.
type child struct {
	it      base.Iterator
	kv      *base.KV        // the entry; nil: the child is at its end in the current direction
	stepper base.StepSeeker // it as a StepSeeker, or nil if it is none
	stays   bool            // the seek under way leaves the child where it is
}

// A player is a child's entry in the tournament. hi and lo are the first 16 bytes of its
// user key, as big-endian integers. In the backward direction they are complemented, so
// that the smaller player wins in both directions. Most matches are decided by them
// without a look at the keys. A child at its end has the largest values, so that it loses.
type player struct {
	hi, lo uint64
	child  int32
}

// A Merging is a tournament tree of losers (Knuth, The Art of Computer Programming,
// volume 3, 5.4.1). losers[1:] are the inner nodes, and each holds the player that lost
// the match there. The leaf of child i would be node i+len(children), and the parent of
// node p is p/2. When the winner moves, only the matches between its leaf and the root
// are played again. That is one comparison for each level, where a heap needs two.
//
// Invariant: in direction forward or backward, the winner has beaten all others,
// its kv is not nil, and every child's kv is what its last movement returned.
type Merging struct {
	children []child
	losers   []player
	winner   player
	dir      direction
	err      error
}

// First moves to the first entry of all.
func (m *Merging) First() *base.KV {
	m.begin()
	for i := range m.children {
		if c := &m.children[i]; !m.moved(c, c.it.First()) {
			return nil
		}
	}
	return m.contest(forward)
}

// Last moves to the last entry of all.
func (m *Merging) Last() *base.KV {
	m.begin()
	for i := range m.children {
		if c := &m.children[i]; !m.moved(c, c.it.Last()) {
			return nil
		}
	}
	return m.contest(backward)
}

// SeekGE moves to the first entry at or after (key, seq). Children that can seek in steps
// take each step together, so that their waits overlap: see base.StepSeeker.
//
// A seek from the current entry to a greater one leaves those children where they are that
// already stand behind the target. So a seek to a near key costs little more than a step.
func (m *Merging) SeekGE(key []byte, seq base.Seq) *base.KV {
	target := base.NewKey(key, seq, base.KindMax)
	n := m.choose(forward, func(kv *base.KV) bool { return base.Compare(kv.InternalKey, target) >= 0 })
	for step := range base.SeekSteps {
		for i := range m.children {
			if c := &m.children[i]; n > 1 && c.stepper != nil && !c.stays {
				c.stepper.SeekStep(step, key, seq)
			}
		}
	}
	for i := range m.children {
		c := &m.children[i]
		if c.stays {
			continue
		}
		kv := (*base.KV)(nil)
		if n > 1 && c.stepper != nil {
			kv = c.stepper.SeekEnd(key, seq)
		} else {
			kv = c.it.SeekGE(key, seq)
		}
		if !m.moved(c, kv) {
			return nil
		}
	}
	return m.contest(forward)
}

// SeekLT moves to the last entry whose user key is less than key. It takes
// steps, and leaves children where they are, as SeekGE does.
func (m *Merging) SeekLT(key []byte) *base.KV {
	n := m.choose(backward, func(kv *base.KV) bool { return string(kv.UserKey) < string(key) })
	for step := range base.SeekSteps {
		for i := range m.children {
			if c := &m.children[i]; n > 1 && c.stepper != nil && !c.stays {
				c.stepper.SeekLTStep(step, key)
			}
		}
	}
	for i := range m.children {
		c := &m.children[i]
		if c.stays {
			continue
		}
		kv := (*base.KV)(nil)
		if n > 1 && c.stepper != nil {
			kv = c.stepper.SeekLTEnd(key)
		} else {
			kv = c.it.SeekLT(key)
		}
		if !m.moved(c, kv) {
			return nil
		}
	}
	return m.contest(backward)
}

// choose begins a seek. It marks the children that stay, and returns how many do not. reached
// reports whether an entry is at the target or behind it, in direction dir.
//
// A child may stay only if the seek goes on in the direction of the last movement, and not back:
// the current entry must not have reached the target. Then what the child has passed by was
// before the current entry, so it is before the target too.
func (m *Merging) choose(dir direction, reached func(*base.KV) bool) (moving int) {
	near := m.dir == dir && !reached(m.children[m.winner.child].kv)
	m.begin()
	for i := range m.children {
		c := &m.children[i]
		if c.stays = near && (c.kv == nil || reached(c.kv)); !c.stays {
			moving++
		}
	}
	return moving
}

// Next moves one entry forward.
// Requires: the movement before was First, SeekGE or Next.
func (m *Merging) Next() *base.KV {
	if m.dir != forward {
		return m.refuse()
	}
	c := &m.children[m.winner.child]
	kv := c.it.Next()
	if c.kv = kv; kv == nil {
		return m.ended(c)
	}
	m.winner.hi, m.winner.lo = base.Prefix(kv.UserKey)
	return m.replay()
}

// Prev moves one entry back.
// Requires: the movement before was Last, SeekLT or Prev.
func (m *Merging) Prev() *base.KV {
	if m.dir != backward {
		return m.refuse()
	}
	c := &m.children[m.winner.child]
	kv := c.it.Prev()
	if c.kv = kv; kv == nil {
		return m.ended(c)
	}
	hi, lo := base.Prefix(kv.UserKey)
	m.winner.hi, m.winner.lo = ^hi, ^lo
	return m.replay()
}

// Rival returns the number of the child that has the entry of the last movement, and the user key of
// the entry that the others would give: nil if they have none. Requires: there is an entry.
func (m *Merging) Rival() (child int, key []byte) {
	w := int(m.winner.child)
	var best *player
	for p := (len(m.children) + w) / 2; p >= 1; p /= 2 {
		if l := &m.losers[p]; best == nil || m.beats(l, best) {
			best = l
		}
	}
	if kv := m.children[best.child].kv; kv != nil {
		key = kv.UserKey
	}
	return w, key
}

// begin forgets the position before a movement that does not depend on it. If
// that movement fails before contest, there is no position afterwards either.
func (m *Merging) begin() {
	m.dir, m.err = nowhere, nil
}

// moved records the result of c's movement, and reports whether it
// succeeded. If a child fails, the whole movement fails: without
// that child's entry it is not known which entry comes next.
func (m *Merging) moved(c *child, kv *base.KV) bool {
	c.kv = kv
	if kv == nil {
		if err := c.it.Err(); err != nil {
			m.dir, m.err = nowhere, err
			return false
		}
	}
	return true
}

// ended finishes a step in which the winner's child c returned no entry.
func (m *Merging) ended(c *child) *base.KV {
	if !m.moved(c, nil) {
		return nil
	}
	m.winner.hi, m.winner.lo = math.MaxUint64, math.MaxUint64
	return m.replay()
}

// contest plays all matches and returns the winner's
// entry. Requires: every child has made its movement.
func (m *Merging) contest(dir direction) *base.KV {
	m.dir = dir
	n := len(m.children)
	if n == 0 {
		return m.stand()
	}
	m.winner = m.play(1)
	return m.stand()
}

// play returns the winner of the matches at and below node p.
func (m *Merging) play(p int) player {
	if i := p - len(m.children); i >= 0 {
		return m.enter(int32(i))
	}
	a, b := m.play(2*p), m.play(2*p+1)
	if m.beats(&b, &a) {
		a, b = b, a
	}
	m.losers[p] = b
	return a
}

// enter returns the player for the entry of child i.
func (m *Merging) enter(i int32) player {
	p := player{hi: math.MaxUint64, lo: math.MaxUint64, child: i}
	if kv := m.children[i].kv; kv != nil {
		p.hi, p.lo = base.Prefix(kv.UserKey)
		if m.dir == backward {
			p.hi, p.lo = ^p.hi, ^p.lo
		}
	}
	return p
}

// replay plays the matches between the winner's
// leaf and the root, after the winner has moved.
func (m *Merging) replay() *base.KV {
	w := m.winner
	for p := (uint(len(m.children)) + uint(w.child)) / 2; p >= 1; p /= 2 {
		l := &m.losers[p]
		if l.hi > w.hi {
			continue
		}
		if l.hi < w.hi || l.lo < w.lo || l.lo == w.lo && m.beatsTail(l, &w) {
			w, *l = *l, w
		}
	}
	m.winner = w
	return m.stand()
}

// beats reports whether a comes before b in the current direction.
func (m *Merging) beats(a, b *player) bool {
	if a.hi != b.hi {
		return a.hi < b.hi
	}
	if a.lo != b.lo {
		return a.lo < b.lo
	}
	return m.beatsTail(a, b)
}

// beatsTail decides between players with equal prefixes. A player without an entry loses.
func (m *Merging) beatsTail(a, b *player) bool {
	x, y := m.children[a.child].kv, m.children[b.child].kv
	if x == nil || y == nil {
		return x != nil
	}
	c := base.Compare(x.InternalKey, y.InternalKey)
	if m.dir == backward {
		c = -c
	}
	if c == 0 {
		return (a.child < b.child) == (m.dir == forward)
	}
	return c < 0
}

// stand returns the winner's entry. If even the winner has none,
// all children are at their ends, and there is no position.
func (m *Merging) stand() *base.KV {
	if len(m.children) == 0 {
		m.dir = nowhere
		return nil
	}
	kv := m.children[m.winner.child].kv
	if kv == nil {
		m.dir = nowhere
	}
	return kv
}

// refuse is the result of a step without a position, or in the wrong direction.
func (m *Merging) refuse() *base.KV {
	if m.dir != nowhere {
		m.dir, m.err = nowhere, errTurn
	}
	return nil
}

// Err returns the error of the child that ended the last movement, or errTurn, or nil.
func (m *Merging) Err() error { return m.err }

// Close closes all children and returns all their errors.
func (m *Merging) Close() error {
	var errs []error
	for i := range m.children {
		if err := m.children[i].it.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	clear(m.children)
	m.children = m.children[:0]
	m.begin()
	return errors.Join(errs...)
}
