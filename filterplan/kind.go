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

// ChooseKind returns the kind of the filter that a table gets if it has so many keys
// and should get a filter as o says, and the false positive rate of that filter. Of few
// keys a fuse filter takes so many bits for each that a blocked filter is better.
func ChooseKind(keys int, o bloom.StaticOptions) (kind bloom.Kind, fpr float64) {
	fpr = bloom.PredictFPR(o.BitsPerKey)
	if o.Kind == bloom.KindFuse {
		if fuse := bloom.FuseFPR(bloom.FuseFor(keys, o.BitsPerKey)); fuse < fpr {
			return bloom.KindFuse, fuse
		}
	}
	return bloom.KindBlocked, fpr
}
