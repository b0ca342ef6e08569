package filterplan

import "github.com/shaledb/shale/bloom"

// Kind returns the kind of filter that the tables of a level should get. A table
// of few keys may get another: see ChooseKind.
func (p Policy) Kind(level int) bloom.Kind {
	if level == lastLevel && p.LastLevelFuse {
		return bloom.KindFuse
	}
	return bloom.KindBlocked
}

// ChooseKind returns the kind of filter for a table with this number of keys and the
// options o, and the false positive rate of that filter. With few keys a fuse filter
// takes more bits for each than a blocked filter of the same rate.
func ChooseKind(keys int, o bloom.StaticOptions) (kind bloom.Kind, fpr float64) {
	fpr = bloom.PredictFPR(o.BitsPerKey)
	if o.Kind == bloom.KindFuse {
		if fuse := bloom.FuseFPR(bloom.FuseFor(keys, o.BitsPerKey)); fuse < fpr {
			return bloom.KindFuse, fuse
		}
	}
	return bloom.KindBlocked, fpr
}
