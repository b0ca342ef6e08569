package main

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// version is what the tests release: no tag will ever have it, so that no cache holds another one.
const version = "v0.0.1-test"

// TestUsers makes a release of this tree, and does in empty directories what README.md and others tell
// users to do. Our modules come from a proxy in a directory; nobody's replace lines help.
func TestUsers(t *testing.T) {
	u := released(t)
	for _, m := range u.modules {
		if m.kept != "" {
			continue
		}
		sources, err := filepath.Glob(filepath.Join(u.repo.dir, m.dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(sources) > 0 {
			t.Run("get "+path.Join("shale", m.dir), func(t *testing.T) { u.library(t, m) })
		}
		for _, p := range u.mains(t, m) {
			t.Run("install "+path.Base(p), func(t *testing.T) { u.program(t, p) })
		}
	}
	t.Run("cobra", u.cobra)
	t.Run("documents", u.documents)
	t.Run("clone", u.clone)
}

// users are those of a release.
type users struct {
	repo    repo // where the tag is
	modules []module
	env     []string
	bin     string // where go install puts programs
}

// released makes a release of a copy of this tree, with what is not committed yet.
func released(t *testing.T) *users {
	t.Helper()
	temp, top := t.TempDir(), repo{t.Context(), filepath.Join("..", "..")}
	u := &users{repo: repo{t.Context(), filepath.Join(temp, "repo")}, bin: filepath.Join(temp, "bin")}
	files, err := top.git("", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(files, "\n") {
		data, err := os.ReadFile(filepath.Join(top.dir, name))
		if os.IsNotExist(err) {
			continue // it is removed, but not committed
		}
		to := filepath.Join(u.repo.dir, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o777)
		}
		if err == nil {
			err = os.WriteFile(to, data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	commitAll(t, u.repo)
	proxy := filepath.Join(temp, "proxy")
	var log strings.Builder
	err = makeRelease(t.Context(), options{repo: u.repo, version: version, out: temp, proxy: proxy, log: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	names, err := u.repo.goMods()
	if err != nil {
		t.Fatal(err)
	}
	if u.modules, err = findModules(u.repo.dir, names); err != nil {
		t.Fatal(err)
	}
	u.env = append(os.Environ(), proxyEnv(proxy, filepath.Join(temp, "modules"))...)
	u.env = append(u.env, "GOBIN="+u.bin, "GOSUMDB=off")
	return u
}

// run runs a command as a user does, and returns what it prints.
func (u *users) run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// empty returns a directory with a new module, and nothing in it.
func (u *users) empty(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	u.run(t, dir, "go", "mod", "init", "example.org/me")
	return dir
}

// mains are the paths of the programs in a module.
func (u *users) mains(t *testing.T, m module) (all []string) {
	t.Helper()
	top := filepath.Join(u.repo.dir, m.dir)
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		inner := slices.ContainsFunc(u.modules, func(o module) bool { return o.path != m.path && name == filepath.Join(u.repo.dir, o.dir) })
		if base := d.Name(); name != top && (inner || slices.Contains([]string{"testdata", "internal", "test", "bench", "examples"}, base) || base[0] == '.') {
			return filepath.SkipDir
		}
		if text, err := os.ReadFile(filepath.Join(name, "main.go")); err == nil && strings.Contains(string(text), "\npackage main\n") {
			rel, err := filepath.Rel(u.repo.dir, name)
			all = append(all, path.Join(ours, filepath.ToSlash(rel)))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// library adds a library to an empty module. If there is a program in testdata that uses it, that must
// work as well.
func (u *users) library(t *testing.T, m module) {
	dir := u.empty(t)
	u.run(t, dir, "go", "get", m.path+"@"+version)
	name := cmp.Or(strings.ReplaceAll(m.dir, "/", "-"), "shale")
	source, err := os.ReadFile(filepath.Join("testdata/programs", name+".go"))
	if os.IsNotExist(err) {
		u.run(t, dir, "go", "build", m.path)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	u.try(t, dir, source)
}

// try runs a program of one file, which prints the capital of Norway and an error.
func (u *users) try(t *testing.T, dir string, source []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o666); err != nil {
		t.Fatal(err)
	}
	u.run(t, dir, "go", "mod", "tidy")
	u.run(t, dir, "go", "build", "-o", "me", ".")
	if got := u.run(t, dir, filepath.Join(dir, "me"), filepath.Join(dir, "store")); !strings.HasSuffix(got, "Oslo <nil>\n") {
		t.Errorf("the program printed %q, want Oslo <nil> at the end", got)
	}
}

// program installs a program. It knows its version, and those that have the option say it.
func (u *users) program(t *testing.T, importPath string) {
	u.run(t, t.TempDir(), "go", "install", importPath+"@"+version)
	file := filepath.Join(u.bin, path.Base(importPath))
	if got := u.run(t, t.TempDir(), "go", "version", "-m", file); !strings.Contains(got, "\t"+version+"\t") && !strings.Contains(got, "\t"+version+"\n") {
		t.Errorf("go version -m of %s prints %q, want %s in it", path.Base(importPath), got, version)
	}
	if strings.Contains(importPath, "/integrations/") {
		return
	}
	if got := u.run(t, t.TempDir(), file, "--version"); !strings.Contains(got, version) {
		t.Errorf("%s --version prints %q, want %s in it", path.Base(importPath), got, version)
	}
}

// cobra adds the library to a program that has an older cobra than our command. It keeps it.
func (u *users) cobra(t *testing.T) {
	dir := u.empty(t)
	u.run(t, dir, "go", "get", "github.com/spf13/cobra@v1.8.0", "github.com/mattn/go-runewidth@v0.0.15")
	before := u.run(t, dir, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	u.run(t, dir, "go", "get", ours+"@"+version)
	after := u.run(t, dir, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			t.Errorf("the library moves %s", line)
		}
	}
	if !strings.Contains(after, "github.com/spf13/cobra v1.8.0\n") || !strings.Contains(after, ours+" "+version+"\n") {
		t.Errorf("modules afterwards:\n%s", after)
	}
}

// installLine is a command of a document that fetches something of ours.
var installLine = regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`)(go (?:get|install|mod edit) [^`#\n]*)")

// documents runs each such command: in an empty module, or in a clone if it names no module.
func (u *users) documents(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(u.repo.dir, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join(u.repo.dir, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range installLine.FindAllStringSubmatch(string(text), -1) {
			here := strings.HasPrefix(m[1], "go install ") && !strings.Contains(m[1], ours) // in a clone
			if !here && !strings.Contains(m[1], ours) {
				continue // something else
			}
			n++
			t.Run(filepath.Base(page)+": "+m[1], func(t *testing.T) {
				dir := u.repo.dir
				if !here {
					dir = u.empty(t)
				}
				u.run(t, dir, "sh", "-c", strings.ReplaceAll(m[1], "=CLONE", "="+u.repo.dir))
			})
		}
	}
	if n < 8 {
		t.Errorf("%d commands, want those of README.md and docs/RELEASES.md at least", n)
	}
}

// clone builds at the tag what is not released: it still finds the other modules by replace lines.
// The sums in go.sum of the others are those of what git has at the tag.
func (u *users) clone(t *testing.T) {
	if _, err := u.repo.git("", "checkout", "-q", version); err != nil {
		t.Fatal(err)
	}
	for _, m := range u.modules {
		if m.kept != "" {
			u.run(t, filepath.Join(u.repo.dir, m.dir), "go", "list", "-deps", "./...")
			continue
		}
		text, err := os.ReadFile(filepath.Join(u.repo.dir, m.dir, "go.mod"))
		if err != nil || strings.Contains(string(text), "replace") || strings.Contains(string(text), "v0.0.0\n") {
			t.Errorf("%s at the tag: %v\n%s", m.path, err, text)
		}
		u.run(t, filepath.Join(u.repo.dir, m.dir), "go", "list", "-deps", "-test", "./...")
	}
}
