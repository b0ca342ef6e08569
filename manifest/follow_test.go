package manifest

import (
	"path/filepath"
	"testing"

	"github.com/shaledb/shale/internal/base"
)

// At each length of a manifest Follow leads to the state of Load, from each state before it. What has not changed
// is the same State, and without a change of the tables the same Version.
func TestFollow_EveryLength(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	name := base.ManifestName(1)
	whole := readFile(t, m, name)
	c, err := readCurrent(m, dir)
	mustNil(t, err)
	var all []*State
	for n := c.durable; n <= int64(len(whole)); n++ {
		putFile(t, m, name, whole[:n])
		want, err := Load(m, dir)
		mustNil(t, err)
		for _, s := range all {
			got, err := Follow(m, dir, s)
			mustNil(t, err)
			if describe(got) != describe(want) || got.Length != want.Length || got.chain != want.chain {
				t.Fatalf("%d bytes, from %d: %s, want %s", n, s.Length, describe(got), describe(want))
			}
			if (got == s) != (s.Length == want.Length) {
				t.Fatalf("%d bytes, from %d: a new state: %v", n, s.Length, got != s)
			}
			if got != s && got.Version != s.Version && got.Version.String() == s.Version.String() && len(got.Version.New(s.Version)) == 0 && got.NextFileNum == s.NextFileNum {
				t.Errorf("%d bytes, from %d: a new version of the same tables", n, s.Length)
			}
		}
		if len(all) == 0 || all[len(all)-1].Length != want.Length {
			all = append(all, want)
		}
	}
	if len(all) != len(life())+1 {
		t.Errorf("%d states, want %d", len(all), len(life())+1)
	}
}

// Another manifest, under another number or the same, is loaded from its beginning.
func TestFollow_AnotherManifest(t *testing.T) {
	m := newMem(t)
	writeLife(t, m, false)
	s, err := Load(m, dir)
	mustNil(t, err)
	l, err := Create(m, dir, 40, s)
	mustNil(t, err)
	mustNil(t, m.Remove(filepath.Join(dir, base.ManifestName(1))))
	next, err := Follow(m, dir, s)
	mustNil(t, err)
	if next.ManifestNum != 40 || describe(next.withNum(s)) != describe(s) {
		t.Errorf("%s, want %s", describe(next), describe(s))
	}
	mustNil(t, l.Close())

	other := *s
	other.StoreID++
	l, err = Create(m, dir, 40, &other)
	mustNil(t, err)
	mustNil(t, l.Close())
	after, err := Follow(m, dir, next)
	mustNil(t, err)
	if after.StoreID != other.StoreID {
		t.Errorf("store %#x, want %#x", after.StoreID, other.StoreID)
	}
}

// withNum returns a copy of s that has used as many numbers as t.
func (s *State) withNum(t *State) *State {
	c := *s
	c.NextFileNum = t.NextFileNum
	return &c
}
