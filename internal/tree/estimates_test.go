package tree

import (
	"testing"

	"github.com/shaledb/shale/manifest"
)

// What was estimated for a version is kept for it, and not for the next one.
func TestVersion_Estimates(t *testing.T) {
	big := newBigTree(t, 3)
	computed := 0
	estimate := func() Estimates {
		computed++
		return Estimates{LiveBytes: int64(computed)}
	}
	v := big.tree.version
	for range 2 {
		if e := v.Estimates(estimate); e.LiveBytes != 1 {
			t.Errorf("%d live bytes, want those of the first call", e.LiveBytes)
		}
	}
	last := v.Runs[0].Tables[2].Meta.Num
	big.install(t, &manifest.Edit{Removed: []manifest.Removed{{Level: 6, Num: last}}}, nil)
	if e := big.tree.version.Estimates(estimate); e.LiveBytes != 2 || v.Estimates(estimate).LiveBytes != 1 {
		t.Errorf("%d live bytes of the next version, want those of a second call", e.LiveBytes)
	}
}
