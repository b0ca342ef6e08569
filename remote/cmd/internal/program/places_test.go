package program

import (
	"strings"
	"testing"

	"github.com/shaledb/shale/remote"
)

// The picture has a bar for each level. What a level has is seen, however little it is, and the bar of the largest level has
// barColumns columns.
func TestWritePlaces(t *testing.T) {
	sum := remote.TableSum{Tables: 1, Bytes: 1 << 20}
	var got strings.Builder
	err := writePlaces(&got, []remote.LevelPlaces{
		{Level: 0, Local: remote.TableSum{Tables: 2, Bytes: 1 << 10}, Both: sum},
		{Level: 5, Both: sum},
		{Level: 6, Local: sum, Both: sum, Bucket: remote.TableSum{Tables: 1200, Bytes: 38 << 20}},
	})
	want := `level                              █ only here         ▓ here and in the bucket   ░ only in the bucket
L0      █▓                         2 tables, 1.0 KiB   1 table, 1.0 MiB           -
L5      ▓                          -                   1 table, 1.0 MiB           -
L6      █▓░░░░░░░░░░░░░░░░░░░░░░   1 table, 1.0 MiB    1 table, 1.0 MiB           1,200 tables, 38.0 MiB
`
	if err != nil || got.String() != want {
		t.Errorf("%v\n%swant\n%s", err, got.String(), want)
	}
}
