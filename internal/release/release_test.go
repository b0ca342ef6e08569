package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a repository with three modules: a library, a program that requires it, and a benchmark
// that is not released.
var small = map[string]string{
	"go.mod":        "module " + ours + "\n\ngo 1.26.0\n",
	"shale.go":      "package shale\n\nconst City = \"Oslo\"\n",
	"LICENSE":       "Do as you like.\n",
	"CHANGELOG.md":  "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A city.\n",
	"cmd/go.mod":    "module " + ours + "/cmd\n\ngo 1.26.0\n\nreplace " + ours + " => ..\n\nrequire " + ours + " v0.0.0\n",
	"cmd/main.go":   "package main\n\nimport \"" + ours + "\"\n\nfunc main() { println(shale.City) }\n",
	"bench/go.mod":  "module " + ours + "/bench\n\ngo 1.26.0\n\nreplace " + ours + " => ..\n\nrequire " + ours + " v0.0.0\n",
	"bench/main.go": "package main\n\nimport _ \"" + ours + "\"\n\nfunc main() {}\n",
}

func smallRepo(t *testing.T, changes map[string]string) repo {
	t.Helper()
	r := repo{t.Context(), t.TempDir()}
	for _, files := range []map[string]string{small, changes} {
		for name, text := range files {
			to := filepath.Join(r.dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	commitAll(t, r)
	return r
}

// commitAll makes a repository of a directory, with one commit.
func commitAll(t *testing.T, r repo) {
	t.Helper()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.org"},
		{"add", "-A"}, {"commit", "-q", "-m", "all"},
	} {
		if _, err := r.git("", args...); err != nil {
			t.Fatal(err)
		}
	}
}

func gitOut(t *testing.T, r repo, args ...string) string {
	t.Helper()
	out, err := r.git("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A release tags each module that is released, at a commit that the branch does not have. The go
// command, which makes its own archive of each tag, finds the sums that go.sum has.
func TestRelease_Tags(t *testing.T) {
	r, out := smallRepo(t, nil), t.TempDir()
	head := gitOut(t, r, "rev-parse", "main")
	if err := makeRelease(t.Context(), options{repo: r, version: "v0.1.0", out: out, vet: true, log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if got := gitOut(t, r, "tag"); got != "cmd/v0.1.0\nv0.1.0" {
		t.Errorf("tags: %q", got)
	}
	if gitOut(t, r, "rev-parse", "main") != head || gitOut(t, r, "rev-parse", "v0.1.0^{commit}^^") != head || gitOut(t, r, "status", "--porcelain") != "" {
		t.Error("the branch is not as it was, or the release is not made of it")
	}
	for name, want := range map[string]string{
		"cmd/go.mod":   "module " + ours + "/cmd\n\ngo 1.26.0\n\nrequire " + ours + " v0.1.0\n",
		"bench/go.mod": "module " + ours + "/bench\n\ngo 1.26.0\n\nreplace " + ours + " => ..\n\nrequire " + ours + " v0.1.0\n",
	} {
		if got := gitOut(t, r, "show", "v0.1.0:"+name) + "\n"; got != want {
			t.Errorf("%s at the tag is\n%s", name, got)
		}
	}
	if notes, err := os.ReadFile(filepath.Join(out, "notes.md")); string(notes) != "### Added\n\n- A city.\n" {
		t.Errorf("notes: %q, %v", notes, err)
	}
	if log := gitOut(t, r, "show", "cmd/v0.1.0:CHANGELOG.md"); !strings.Contains(log, "## [Unreleased]\n\n## [0.1.0] - 20") {
		t.Errorf("CHANGELOG.md at the tag:\n%s", log)
	}
	sums := gitOut(t, r, "show", "v0.1.0:cmd/go.sum")
	if sum := sumOfTag(t, r, ours+"@v0.1.0"); !strings.Contains(sums, ours+" v0.1.0 "+sum) {
		t.Errorf("go.sum of cmd has\n%s\nand the tag has the sum %s", sums, sum)
	}
	if err := makeRelease(t.Context(), options{repo: r, version: "v0.1.0", out: out, log: io.Discard}); err == nil || !strings.Contains(err.Error(), "a tag v0.1.0 already") {
		t.Errorf("the same version again: %v", err)
	}
	if err := makeRelease(t.Context(), options{repo: r, version: "v0.0.9", out: out, log: io.Discard}); err == nil || !strings.Contains(err.Error(), "older than") {
		t.Errorf("an older version: %v", err)
	}
}

// sumOfTag lets the go command fetch a module from the repository itself.
func sumOfTag(t *testing.T, r repo, what string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", what)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(t.TempDir(), "modules"), "GOFLAGS=-modcacherw", "GOPRIVATE="+ours,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+fileURL(r.dir)+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+ours)
	out, err := cmd.Output()
	var m struct{ Sum, Error string }
	if e := json.Unmarshal(out, &m); err != nil || e != nil || m.Error != "" {
		t.Fatalf("go mod download: %v, %v, %s", err, e, m.Error)
	}
	return m.Sum
}

// What is not fit for a release is refused, and nothing remains of the attempt.
func TestRelease_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		changes map[string]string
		dirty   bool
		want    string
	}{
		"no version":         {"0.1.0", nil, false, "is no version"},
		"a part":             {"v0.1", nil, false, "is no version"},
		"another path":       {"v2.0.0", nil, false, "from v2 up"},
		"not committed":      {"v0.1.0", nil, true, "commit these files first"},
		"nothing new":        {"v0.1.0", map[string]string{"CHANGELOG.md": "## [Unreleased]\n\n## [0.0.1]\n\n- A city.\n"}, false, "nothing under"},
		"no section":         {"v0.1.0", map[string]string{"CHANGELOG.md": "# Changelog\n"}, false, "no line ## [Unreleased]"},
		"code with a fault":  {"v0.1.0", map[string]string{"cmd/main.go": "package main\n\nimport \"" + ours + "\"\n\nfunc main() { println(shale.Town) }\n"}, false, "undefined: shale.Town"},
		"a wrong path":       {"v0.1.0", map[string]string{"cmd/go.mod": "module example.org/cmd\n"}, false, "want " + ours + "/cmd"},
		"an absent module":   {"v0.1.0", map[string]string{"cmd/go.mod": "module " + ours + "/cmd\n\nrequire " + ours + "/gone v0.0.0\n"}, false, "one that is not there"},
		"one not released":   {"v0.1.0", map[string]string{"cmd/go.mod": "module " + ours + "/cmd\n\nrequire " + ours + "/bench v0.0.0\n"}, false, "which is not released"},
		"the last one fails": {"v0.1.0", map[string]string{"zoo/go.mod": "module " + ours + "/zoo\n\ngo 1.26.0\n", "zoo/zoo.go": "package zoo\n\nvar X = y\n"}, false, "undefined: y"},
	} {
		t.Run(name, func(t *testing.T) {
			r := smallRepo(t, c.changes)
			if c.dirty {
				if err := os.WriteFile(filepath.Join(r.dir, "new.go"), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			before := gitOut(t, r, "count-objects") + gitOut(t, r, "status", "--porcelain", "--branch")
			err := makeRelease(t.Context(), options{repo: r, version: c.version, out: t.TempDir(), vet: true, log: io.Discard})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if after := gitOut(t, r, "count-objects") + gitOut(t, r, "status", "--porcelain", "--branch"); after != before || gitOut(t, r, "tag") != "" {
				t.Errorf("the repository has changed: %q, then %q", before, after)
			}
		})
	}
}

// Tags are made all or none.
func TestTags_AllOrNone(t *testing.T) {
	r := smallRepo(t, nil)
	gitOut(t, r, "tag", "cmd/v0.1.0")
	if err := r.tags(gitOut(t, r, "rev-parse", "HEAD"), "x", []string{"v0.1.0", "cmd/v0.1.0", "remote/v0.1.0"}); err == nil {
		t.Error("a tag that is there was made again")
	}
	if got := gitOut(t, r, "tag"); got != "cmd/v0.1.0" {
		t.Errorf("tags: %q", got)
	}
}

// Modules come after those that they require.
func TestModules_Order(t *testing.T) {
	r := repo{t.Context(), filepath.Join("..", "..")}
	names, err := r.goMods()
	if err != nil {
		t.Fatal(err)
	}
	all, err := findModules(r.dir, names)
	if err != nil {
		t.Fatal(err)
	}
	place := func(name string) int { return slices.IndexFunc(all, func(m module) bool { return m.path == name }) }
	if all[0].path != ours || place(ours+"/remote/cmd") < place(ours+"/remote/s3") || place(ours+"/remote/s3") < place(ours+"/remote") {
		t.Errorf("the order is %v", all)
	}
	for _, name := range []string{ours + "/cluster/boltbench", ours + "/bench/peers", ours + "/internal/release"} {
		if i := place(name); i < 0 || all[i].kept == "" {
			t.Errorf("%s is released", name)
		}
	}
}
