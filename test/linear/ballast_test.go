package linear

import (
	"fmt"
	"strings"

	"github.com/shaledb/shale/test/harness"
)

// ballast is entries that are in each store from the beginning. They are written again and again,
// with the same values, so that they make flushes and compactions and no difference.
var ballast = func() harness.State {
	var entries []harness.Entry
	for i := range 40 {
		entries = append(entries, harness.Entry{Key: fmt.Sprintf("ballast%02d", i), Value: strings.Repeat("b", 200)})
	}
	return harness.StateOf(entries)
}()
