package backup

import (
	"sync/atomic"

	"github.com/shaledb/shale/manifest"
)

// A Progress shows how far Run or Restore has come. Others may read it meanwhile.
type Progress struct {
	Done atomic.Int64 // bytes of tables that are there, and then of commits
	All  atomic.Int64 // of tables; 0: they are all there, or there were none to copy
}

// begin begins to copy the tables of state.
func (p *Progress) begin(state *manifest.State) {
	all := int64(0)
	for t := range state.Version.Tables() {
		all += t.Size
	}
	p.Done.Store(0)
	p.All.Store(all)
}
