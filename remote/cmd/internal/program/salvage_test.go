package program

import (
	"testing"

	"github.com/shaledb/shale"
)

// What salvage prints are commands of shale, also for range deletes without bounds and for keys that need quotes.
func TestSalvage_Commands(t *testing.T) {
	var b shale.Batch
	for _, err := range []error{
		b.Put([]byte("a b"), nil), b.Delete([]byte("--c")),
		b.DeleteRange([]byte("d"), []byte("e\n")), b.DeleteRange(nil, []byte("f")), b.DeleteRange([]byte("g"), nil), b.DeleteRange(nil, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`put "a b" ""`, `del "--c"`, `delrange --from d --to "e\n"`, `delrange --to f`, `delrange --from g`, `delrange --all`,
	}
	i := 0
	for op := range b.Ops() {
		if got := commandOf(op); got != want[i] {
			t.Errorf("%s, want %s", got, want[i])
		}
		i++
	}
}
