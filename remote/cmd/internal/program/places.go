package program

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/remote"
)

// A picture of where the tables of a store are.

// barColumns is how many columns the bar of the largest level has.
const barColumns = 24

// writePlaces writes a line for each level: a bar, whose length says how many bytes it has and whose shades where they are, and how
// many tables are in each place, with their bytes.
func writePlaces(to io.Writer, levels []remote.LevelPlaces) error {
	most := int64(1)
	for _, l := range levels {
		most = max(most, l.Local.Bytes+l.Both.Bytes+l.Bucket.Bytes)
	}
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "level\t\t█ only here\t▓ here and in the bucket\t░ only in the bucket")
	for _, l := range levels {
		bar, sums, drawn := "", "", int64(0)
		for _, part := range []struct {
			shade string
			sum   remote.TableSum
		}{{"█", l.Local}, {"▓", l.Both}, {"░", l.Bucket}} {
			// The bars end where their sums do, so that rounding makes none longer. What there is is seen.
			drawn += part.sum.Bytes
			n := int((drawn*barColumns+most/2)/most) - len([]rune(bar))
			if part.sum.Bytes > 0 {
				n = max(n, 1)
			}
			bar += strings.Repeat(part.shade, max(n, 0))
			sums += "\t" + sumText(part.sum)
		}
		fmt.Fprintf(w, "L%d\t%s%s\n", l.Level, bar, sums)
	}
	return w.Flush()
}

// sumText returns how many tables there are, with their bytes.
func sumText(s remote.TableSum) string {
	if s.Tables == 0 {
		return "-"
	}
	return plural(s.Tables, "table") + ", " + base.FormatBytes(s.Bytes)
}
