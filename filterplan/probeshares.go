package filterplan

import "github.com/shaledb/shale/internal/base"

// ProbeShares has for each level the share of lookups that ask its filters and do
// not find their key there, summed over the runs of the level. 0: it is not known,
// and taken for all lookups.
type ProbeShares [base.NumLevels]float64
