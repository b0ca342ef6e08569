package repair

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/iter"
)

// A merge walks all that there is of the store in the order of keys, finds the
// newest version of each, and whether it is proven to be the newest.
type merge struct {
	s        *survey
	doubtful bool // take what is not proven

	children []base.Iterator
	origins  map[*base.KV]origin // by the address of what an iterator shows
	gaps     []*gap              // that were met and are not behind
	left     []*Left             // made by gaps

	// The newest version so far of the key at hand.
	key     []byte
	value   []byte
	trailer base.Trailer
	origin  origin
}

// A gap is a stretch of a table that is lost. It is known before any key in it
// comes up, for its table's iterator stands behind it then.
type gap struct {
	keys    Keys
	maxSeq  base.Seq
	age     int
	finding int
	left    *Left // nil: nothing was left because of it
}

// may tells whether something newer than the version at hand may be lost in g.
// For a key of its own table that was shown before the gap, only older versions
// may: the range does not begin with it.
func (m *merge) may(g *gap) bool {
	return g.keys.Contains(m.key) && m.origin.age >= g.age && m.trailer.Seq() <= g.maxSeq
}

// addLogs adds the commits of logs. why says why nothing of them is proven; nil:
// they are. Their newest versions are newer than all of the tables: see judge.
func (m *merge) addLogs(e *entries, why *Left) {
	m.origins[&e.at] = origin{doubts: why}
	m.children = append(m.children, e)
}

// run calls put with each key that is to be kept.
func (m *merge) run(put func(key, value []byte) error) (err error) {
	it := iter.NewMerging(m.children...)
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	kv := it.First()
	for kv != nil {
		m.key = append(m.key[:0], kv.UserKey...)
		m.take(kv)
		for kv = it.Next(); kv != nil && bytes.Equal(kv.UserKey, m.key); kv = it.Next() {
			if kv.Trailer == m.trailer && m.origins[kv].before(m.origin) {
				m.take(kv)
			}
		}
		if err := m.decide(put); err != nil {
			return err
		}
	}
	return it.Err()
}

func (m *merge) take(kv *base.KV) {
	m.value = append(m.value[:0], kv.Value...)
	m.trailer, m.origin = kv.Trailer, m.origins[kv]
}

// before decides between entries of the same number: those of logs are the
// same wherever they are, and of two that a merge to the last level has
// stripped of their numbers that of the newer table is the newer one.
func (o origin) before(other origin) bool {
	if o.age == 0 || other.age == 0 {
		return o.age == 0 && (other.age > 0 || o.doubts == nil)
	}
	return o.num > other.num
}

// decide keeps, leaves or drops the key at hand.
func (m *merge) decide(put func(key, value []byte) error) error {
	doubts := m.doubts()
	if m.trailer.Kind() != base.KindPut {
		return nil
	}
	if doubts != nil {
		doubts.note(m.key)
		if !m.doubtful {
			return nil
		}
	}
	return put(m.key, m.value)
}

// doubts returns why the version at hand may not be the newest, or nil.
func (m *merge) doubts() *Left {
	if m.origin.doubts != nil {
		return m.origin.doubts
	}
	var why *Left
	ahead := m.gaps[:0]
	for _, g := range m.gaps {
		if g.keys.Upper != nil && bytes.Compare(g.keys.Upper, m.key) < 0 {
			continue
		}
		ahead = append(ahead, g)
		if why == nil && m.may(g) {
			if g.left == nil {
				f := &m.s.findings[g.finding]
				g.left = &Left{File: f.File, Why: "what is lost there may be newer", Keys: g.keys, LastSeq: uint64(g.maxSeq)}
				m.left = append(m.left, g.left)
			}
			why = g.left
		}
	}
	m.gaps = ahead
	return why
}
