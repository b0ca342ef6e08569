package command

import "testing"

// del deletes nothing if an option has an empty key, as "$PREFIX" is in a script that has not set it: that would be everything,
// or too much.
func TestDel_EmptyBounds(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, notes, st := call("", "db", "put", "k", "v"); st != Found {
		t.Fatal(notes)
	}
	for _, args := range [][]string{
		{"--prefix", ""}, {"--from", ""}, {"--to", ""}, {"--prefix", "", "--to", "z"}, {"--from", "", "--to", "z"}, {"--prefix", "k", "--from", ""},
	} {
		if _, notes, st := call("", append([]string{"db", "del"}, args...)...); st != Failed {
			t.Errorf("del %q: status %d, %s", args, st, notes)
		}
	}
	if out, notes, st := call("", "db", "get", "k"); out != "v\n" || st != Found {
		t.Errorf("get k: %q, %s, status %d", out, notes, st)
	}
	if _, notes, st := call("", "db", "del", "--from", "a"); st != Found {
		t.Error(notes)
	}
	if _, _, st := call("", "db", "get", "k"); st != Absent {
		t.Error("del --from a has not deleted k")
	}
}
