package manifest

import (
	"errors"
	"testing"
)

// Where tables may be is known after loading, in the next manifest, and after edits that don't speak of it.
func TestManifest_Elsewhere(t *testing.T) {
	m := newMem(t)
	s := states(t)[0]
	l, err := Create(m, dir, 1, s)
	mustNil(t, err)
	check := func(when, want string) {
		t.Helper()
		got, err := Load(m, dir)
		mustNil(t, err)
		if got.Elsewhere != want || s.Elsewhere != want {
			t.Errorf("%s: loaded %q, applied %q, want %q", when, got.Elsewhere, s.Elsewhere, want)
		}
	}
	do := func(e *Edit) {
		t.Helper()
		s, err = s.Apply(e, s.Version)
		mustNil(t, errors.Join(err, l.Append(e, true)))
	}
	place := "bucket \"b\""
	check("at first", "")
	do(&Edit{Elsewhere: place})
	check("after the edit", place)
	do(&Edit{LastSeq: 7})
	check("after another edit", place)
	mustNil(t, l.Close())
	l, err = Create(m, dir, 30, s)
	mustNil(t, err)
	check("in the next manifest", place)
	do(&Edit{Elsewhere: "another bucket"})
	check("after another place", "another bucket")
	mustNil(t, l.Close())
}
