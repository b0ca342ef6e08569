package harness

import (
	"fmt"

	"github.com/shaledb/shale"
)

// This file has the operations on a store as a whole.

func drawSync(*Source) Step {
	return Step{Name: "sync", Do: func(s *Side) string { return ErrText(s.Sync()) }}
}

func drawFlush(*Source) Step {
	return Step{Name: "flush", Do: func(s *Side) string { return ErrText(s.Flush()) }}
}

func drawVerify(*Source) Step {
	return Step{Name: "verify", Do: func(s *Side) string { return ErrText(s.Verify()) }}
}

// drawRebuildFilters rebuilds the filters of tables that were written under other options.
func drawRebuildFilters(*Source) Step {
	return Step{Name: "rebuildFilters", Do: func(s *Side) string { return ErrText(s.RebuildFilters()) }}
}

func drawCompact(s *Source) Step {
	r := s.Range()
	return Step{Name: "compact", Args: showRange(r), Do: func(s *Side) string { return ErrText(s.Compact(r)) }}
}

// drawTables looks at the list of tables, which must be in order.
func drawTables(*Source) Step {
	return Step{Name: "tables", Do: func(s *Side) string { return ErrText(s.Tables()) }}
}

// drawHoldLogs holds no logs, all, or the newest.
func drawHoldLogs(s *Source) Step {
	last := []int{0, 1, 1 << 30}[s.IntN(3)]
	return Step{Name: "holdLogs", Args: fmt.Sprint(last), Do: func(s *Side) string { s.HoldLogs(last); return "" }}
}

func copyDir(n int) string { return fmt.Sprint("copy", n) }

// drawCheckpoint makes a checkpoint. Now and then there is one already.
func drawCheckpoint(s *Source) Step {
	if s.copies == 0 || s.IntN(4) > 0 {
		s.copies++
	}
	dir := copyDir(s.copies)
	return Step{Name: "checkpoint", Args: dir, Do: func(s *Side) string { return ErrText(s.Checkpoint(dir)) }}
}

// drawUseCopy reads and changes a checkpoint that was made before.
func drawUseCopy(s *Source) Step {
	dir, w, key := copyDir(1+s.IntN(max(1, s.copies))), s.Write(2), []byte(s.Key())
	w.Own, w.Durability = true, shale.SyncEach
	return Step{Name: "useCopy", Args: dir, Do: func(s *Side) string {
		answer := ""
		err := s.UseCopy(dir, func(c Store) {
			answer = scanText(c, shale.Range{}) + ErrText(c.Write(w)) + lookUp(c, key) +
				scanText(c, shale.Range{KeysOnly: true, Limit: 50, Reverse: true}) + ErrText(c.Verify())
		})
		return answer + ErrText(err)
	}}
}
