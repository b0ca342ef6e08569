package remote

import (
	"path/filepath"
	"testing"

	"github.com/shaledb/shale"
)

// TestOpen_Chdir changes the working directory while a store, its bucket and a reader's copies are open under relative
// names. They must stay where they are.
func TestOpen_Chdir(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	b, err := NewDir(nil, "bucket")
	mustNil(t, err)
	s, err := Open(t.Context(), "db", b, &Options{Ship: -1, Publish: -1})
	mustNil(t, err)
	mustNil(t, s.DB().Put([]byte("a"), []byte("1")))
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	r := openTestReader(t, b, ReaderOptions{Dir: "copies", Interval: -1})
	elsewhere := t.TempDir()
	t.Chdir(elsewhere)
	mustNil(t, s.DB().Put([]byte("b"), []byte("2")))
	mustNil(t, s.Ship(t.Context()))
	mustNil(t, s.DB().Flush(t.Context()))
	mustNil(t, s.Publish(t.Context()))
	mustNil(t, r.Refresh(t.Context()))
	for _, reader := range []shale.Reader{s.DB(), r} {
		if v, err := reader.Get([]byte("b")); err != nil || string(v) != "2" {
			t.Errorf("%q, %v", v, err)
		}
	}
	mustNil(t, r.Close())
	mustNil(t, s.Close())
	if names, err := filepath.Glob(filepath.Join(elsewhere, "*")); err != nil || len(names) > 0 {
		t.Errorf("the other directory has %q, %v", names, err)
	}
	t.Chdir(home)
	s, err = Open(t.Context(), "db", b, nil)
	mustNil(t, err)
	mustNil(t, s.Close())
}
