package filecache

import "math"

// HalfOfProcess returns half of the number of files that the process may have open: the most
// that one cache should keep open. It is at least 16. Where the system sets no limit, it is the
// largest int.
func HalfOfProcess() int {
	if limit, ok := processLimit(); ok {
		return int(max(16, min(limit/2, math.MaxInt32)))
	}
	return math.MaxInt
}
