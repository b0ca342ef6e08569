package program

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A group of three loses its majority for good. The test gives the commands that the help names for this case, each of
// them twice. Then the group takes writes again, and a third member joins it.
func TestRecover_LostMajority(t *testing.T) {
	t.Parallel()
	group := three(t)
	mustNil(t, dial(t, group[1].addr).Set(t.Context(), "k", "v", 0).Err())
	for _, r := range slices.Backward(group) {
		r.stop()
	}
	dirs := []string{group[0].config.dir, group[1].config.dir}
	var names []string
	for _, dir := range append(dirs, dirs...) { // each on its machine
		out := must(t, "recover", dir)
		name := regexp.MustCompile(`[ab]/[0-9a-f]{16}:[0-9a-f]{16}:\d+:\d+`).FindString(out)
		if name == "" || !strings.Contains(out, "Nothing was changed") {
			t.Fatalf("recover %s prints\n%s", dir, out)
		}
		names = append(names, name)
	}
	if !slices.Equal(names[:2], names[2:]) {
		t.Fatalf("names = %q", names)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"recover"}, "usage: shaled recover DIR"},
		{[]string{"recover", filepath.Join(t.TempDir(), "none")}, "no such file"},
		{[]string{"recover", dirs[0], "--survivors", "a"}, `"a" names no survivor`},
		{[]string{"recover", dirs[0], "--survivors", names[1]}, "must have " + names[0]},
	} {
		if _, notes, status := run(t.Context(), test.args...); status != failed || !strings.Contains(notes, test.want) {
			t.Errorf("%q: status %d, %q; want %q", test.args, status, notes, test.want)
		}
	}
	lead := -1
	for range 2 {
		for i, dir := range dirs {
			switch out := must(t, "recover", dir, "--survivors", names[0]+","+names[1]); {
			case strings.Contains(out, "it goes on"):
				lead = i
			case !strings.Contains(out, "put aside") && !strings.Contains(out, "in the folder lost"):
				t.Errorf("recover %s prints %q", dir, out)
			}
		}
	}
	if lead < 0 {
		t.Fatal("no member goes on")
	}
	serve := func(i int, more ...string) *running {
		c := group[i].config
		return start(t, append([]string{c.dir, "--id", c.ID, "--addr", "127.0.0.1:0", "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0"}, more...)...)
	}
	first := serve(lead)
	second := serve(1-lead, "--join", first.node.Address())
	waitVoters(t, first, 2)
	if v, err := dial(t, second.addr).Get(t.Context(), "k").Result(); v != "v" || err != nil {
		t.Errorf("GET on the other survivor = %q, %v", v, err)
	}
}
