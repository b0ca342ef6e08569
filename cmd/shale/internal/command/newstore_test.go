package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A store is made in a folder that is empty or missing. In a folder with other files it is made
// only with --new.
func TestNewStore(t *testing.T) {
	commands := [][]string{{"put", "k", "v"}, {"batch", "-"}, {"import", "-"}, {"-e", "put k v"}}
	for _, args := range commands {
		dir := t.TempDir()
		file := filepath.Join(dir, "letter.txt")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		input := ""
		if args[0] == "import" {
			input = "k\n"
		}
		_, notes, st := call(input, append([]string{"-C", dir}, args...)...)
		if st != Failed || !strings.Contains(notes, "letter.txt") || !strings.Contains(notes, "--new") {
			t.Errorf("%v among other files: status %d, %s", args, st, notes)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%v left %v, %v", args, names, err)
		}
		if _, notes, st := call(input, append([]string{"--new", "-C", dir}, args...)...); st != Found {
			t.Errorf("%v with --new: status %d, %s", args, st, notes)
		}
		if _, notes, st := call(input, append([]string{"-C", dir}, args...)...); st != Found {
			t.Errorf("%v of a store that is there: status %d, %s", args, st, notes)
		}
		inside := filepath.Join(dir, "inside")
		if _, notes, st := call(input, append([]string{"-C", inside}, args...)...); st != Failed || !strings.Contains(notes, "--new") {
			t.Errorf("%v in a folder of a store: status %d, %s", args, st, notes)
		}
		for _, fine := range []string{t.TempDir(), filepath.Join(t.TempDir(), "a")} {
			_, notes, st := call(input, append([]string{"-C", fine}, args...)...)
			if st != Found || strings.Count(notes, "made a new store in "+fine+"\n") != 1 {
				t.Errorf("%v in an empty folder: status %d, %s", args, st, notes)
			}
		}
	}
}

// A folder that is missing in the middle of a name is not made: the name is wrong.
func TestNewStore_WithoutParent(t *testing.T) {
	t.Chdir(t.TempDir())
	for dir, want := range map[string]string{
		filepath.Join("no", "such", "x.db"): "shale: there is no folder " + filepath.Join("no", "such") + "; make it, or",
		filepath.Join("~", "x.db"):          "shale: there is no folder ~; a shell takes ~",
	} {
		if _, notes, st := call("", dir, "put", "k", "v"); st != Failed || !strings.HasPrefix(notes, want) {
			t.Errorf("%s: status %d, %s; want %s", dir, st, notes, want)
		}
	}
	if names, err := os.ReadDir("."); err != nil || len(names) > 0 {
		t.Errorf("%v is left, %v", names, err)
	}
}
