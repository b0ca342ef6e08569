package shale_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// A reader copies commands out of the documents. What they name must exist: packages, flags, tests and benchmarks of go,
// targets and variables of make, commands and options of the programs, and scripts. docs/COMMAND.md is left out, because
// it is made by running what it shows.
func TestDocuments_Commands(t *testing.T) {
	testenv.SkipRace(t)
	r := newRepository(t)
	checked := 0
	for _, doc := range r.documents {
		if doc == "docs/COMMAND.md" {
			continue
		}
		text := read(t, doc)
		for _, m := range regexp.MustCompile(`\bSHALE_[A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
			if !r.words[m] {
				t.Errorf("%s: nothing reads %s", doc, m)
			}
		}
		for _, line := range codeOf(text) {
			n, err := r.checkLine(filepath.Dir(doc), line)
			if err != nil {
				t.Errorf("%s: %s: %v", doc, line, err)
			}
			checked += n
		}
	}
	t.Logf("%d commands", checked)
	if checked < 200 {
		t.Errorf("only %d commands were found in the documents", checked)
	}
}

// Commands that are wrong in one word are found.
func TestDocuments_WrongCommands(t *testing.T) {
	testenv.SkipRace(t)
	r := newRepository(t)
	for _, line := range []string{
		"make tests", "make soak TT=5m", "go run ./benches", "go run ./bench -key FILE", "go test ./wall", "go test -run TestNoSuch ./wal",
		"cd bench/peer && go run .", "cd bench/peers && go run . -onlie shale", "go test -runs Get .", "go instal ./bench",
		"go get github.com/shaledb/shale/blooms", "go run ./remote/cmd/shale-remote", "shale -C x explane k", "shale -C x scan --limt 3",
		"shale-remote shop --once /srv/a $B", "shale-remote ship --twice /srv/a $B", "shaled recovr /var/lib/shaled", ".ci/runs",
		"go test ./compaction -rewrit", "cluster/cmd/shaled/four.sh", "N=8 make mutants", "echo a | shale -C x putt a b",
	} {
		if n, err := r.checkLine("docs/decisions", line); n > 0 && err == nil || n == 0 {
			t.Errorf("%q: %d commands, and nothing is wrong with them", line, n)
		}
	}
}

// A repository has what commands can name. Directories are slash-separated, and "." is the root.
type repository struct {
	documents []string
	modules   []string
	sources   map[string]string   // the Go files of a directory, one after the other, those of tests too
	tests     map[string][]string // the tests, benchmarks, fuzz targets and examples of a directory
	words     map[string]bool     // of all Go files
	makefile  string
	scripts   string // all of .ci
	manual    string // the parts of docs/COMMAND.md that are the help of commands
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{sources: map[string]string{}, tests: map[string][]string{}, words: map[string]bool{}}
	test := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		dir := filepath.ToSlash(filepath.Dir(path))
		switch {
		case path == "dist": // what make release has left there
			return filepath.SkipDir
		case err != nil || d.IsDir():
			return err
		case d.Name() == "go.mod":
			r.modules = append(r.modules, dir)
		case strings.HasSuffix(path, ".md"):
			r.documents = append(r.documents, filepath.ToSlash(path))
		case dir == ".ci":
			r.scripts += read(t, path)
		case strings.HasSuffix(path, ".go"):
			source := read(t, path)
			r.sources[dir] += source
			for _, m := range test.FindAllStringSubmatch(source, -1) {
				r.tests[dir] = append(r.tests[dir], m[1])
			}
			for _, w := range regexp.MustCompile(`SHALE_\w+`).FindAllString(source, -1) {
				r.words[w] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.makefile = read(t, "Makefile")
	for _, m := range regexp.MustCompile("(?s)```text\n.*?\n```").FindAllString(read(t, "docs/COMMAND.md"), -1) {
		r.manual += m + "\n"
	}
	return r
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// codeOf returns the lines of a document's blocks of code, but for those of Go and of output, and what it has between
// backquotes in its text.
func codeOf(document string) (lines []string) {
	text, block, kind := "", false, ""
	for line := range strings.Lines(document) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			block, kind = !block, strings.TrimPrefix(strings.TrimSpace(line), "```")
			text += "\n\n"
		case block && (kind == "" || strings.HasPrefix(kind, "sh") || strings.HasPrefix(kind, "ini")), !block && strings.HasPrefix(line, "    "):
			lines = append(lines, regexp.MustCompile(`\s+# .*`).ReplaceAllString(strings.TrimSpace(line), ""))
		case !block:
			text += line
		}
	}
	for _, m := range regexp.MustCompile("(?s)`([^`]+)`").FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Join(strings.Fields(m[1]), " "))
	}
	return lines
}

// checkLine checks the commands of a line, and returns how many of them it knows. Text says "in module cluster", which
// checkLine does not understand: so a command is right if it is in one of the modules, or in the document's directory.
func (r *repository) checkLine(dir, line string) (known int, err error) {
	bases := append([]string{".", filepath.ToSlash(dir)}, r.modules...)
	for command := range strings.SplitSeq(regexp.MustCompile(`\|\||&&|[;|()]`).ReplaceAllString(quoteBars(line), "\x00"), "\x00") {
		words := strings.Fields(command)
		for i, w := range words {
			words[i] = strings.Trim(strings.NewReplacer("\x01", "|", "\x02", "(", "\x03", ")", "\x04", " ").Replace(w), `'"`)
		}
		var variables []string
		for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
			variables, words = append(variables, words[0]), words[1:]
		}
		if len(words) == 0 {
			continue
		}
		var found func(base string) error
		switch program := words[0]; {
		case program == "git" && len(words) == 3 && words[1] == "clone":
			return known, nil // The rest of the line is in the clone.
		case program == "go" && len(words) > 1 && slices.Contains([]string{"env", "list", "mod", "tool", "version", "work"}, words[1]):
			continue
		case program == "cd" && len(words) == 2 && !strings.HasPrefix(words[1], "/"):
			for i := range bases {
				bases[i] = filepath.ToSlash(filepath.Join(bases[i], words[1]))
			}
			found = func(base string) error { return exists(base) }
		case program == "go" && len(words) > 1 && words[1] != "test" || program == "go" && len(words) > 2:
			found = func(base string) error { return r.checkGo(base, words[1:]) }
		case program == "make" && len(words) > 1:
			found = func(string) error { return r.checkMake(words[1:], variables) }
		case program == "shale" && len(words) > 1:
			found = func(string) error { return r.checkShale(words[1:]) }
		case (program == "shaled" || program == "shale-remote") && len(words) > 1:
			found = func(string) error { return r.checkOther(program, words[1:]) }
		case regexp.MustCompile(`^\.ci/\w+$|^[a-z./]+/[a-z]+\.sh$`).MatchString(program):
			found = func(base string) error { return exists(filepath.Join(base, program)) }
		default:
			continue
		}
		known++
		for i, base := range bases {
			e := found(base)
			if e == nil {
				err = nil
				break
			}
			if i == 0 {
				err = e
			}
		}
		if err != nil {
			return known, err
		}
	}
	return known, nil
}

// quoteBars hides what is special between single quotes.
func quoteBars(line string) string {
	return regexp.MustCompile(`'[^']*'`).ReplaceAllStringFunc(line, func(s string) string {
		return strings.NewReplacer("|", "\x01", "(", "\x02", ")", "\x03", " ", "\x04").Replace(s)
	})
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// checkGo checks a go command in the directory base.
func (r *repository) checkGo(base string, words []string) error {
	verb, words := words[0], words[1:]
	if len(words) > 1 && words[0] == "-C" {
		base, words = filepath.ToSlash(filepath.Join(base, words[1])), words[2:]
	}
	switch verb {
	case "run", "build", "install", "get", "doc", "test", "vet":
	default:
		return fmt.Errorf("go %s is not checked by this test", verb)
	}
	var packages, patterns []string
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w == "--":
			return r.checkPackages(verb, base, packages, patterns)
		case verb == "run" && len(packages) == 1:
			// This is an argument of the program.
			if name := strings.TrimLeft(w, "-"); name != w && name != "h" && !r.hasFlag(join(base, packages[0]), name) {
				return fmt.Errorf("%s has no flag -%s", packages[0], name)
			}
		case w[0] != '-':
			packages = append(packages, w)
		case slices.Contains([]string{"-tags", "-o", "-benchtime", "-count", "-cpu", "-timeout", "-cpuprofile", "-skip", "-run", "-bench"}, w):
			if len(words) == 0 {
				return fmt.Errorf("%s has no value", w)
			}
			if none := []string{"xxx", "NONE", "-", "^$", "."}; (w == "-run" || w == "-bench") && !slices.Contains(none, words[0]) {
				patterns = append(patterns, words[0])
			}
			words = words[1:]
		case slices.Contains([]string{"-v", "-race", "-short", "-c", "-overlay"}, w):
		case w == "-rewrite" && r.anyIn(base, packages, func(dir string) bool { return strings.Contains(r.sources[dir], "datadriven") }):
		case verb != "test" || !r.anyIn(base, packages, func(dir string) bool { return strings.Contains(r.sources[dir], `flag.Bool("`+w[1:]+`"`) }):
			return fmt.Errorf("go %s has no flag %s", verb, w)
		}
	}
	return r.checkPackages(verb, base, packages, patterns)
}

// hasFlag reports whether a program, or a package of shale that it imports, has a string like the flag.
func (r *repository) hasFlag(dir, name string) bool {
	dirs := []string{dir}
	for _, m := range regexp.MustCompile(`"github.com/shaledb/shale/([^"]*)"`).FindAllStringSubmatch(r.sources[dir], -1) {
		dirs = append(dirs, m[1])
	}
	return slices.ContainsFunc(dirs, func(dir string) bool { return strings.Contains(r.sources[dir], `"`+name+`"`) })
}

// checkPackages checks that the packages are there, in the module of base, and that each pattern fits a test of them.
func (r *repository) checkPackages(verb, base string, packages, patterns []string) error {
	for _, p := range packages {
		p, _, _ = strings.Cut(p, "@")
		dir := join(base, strings.TrimSuffix(strings.TrimSuffix(p, "..."), "/"))
		if of, ok := strings.CutPrefix(p, "github.com/shaledb/shale"); ok {
			dir = join(".", strings.TrimPrefix(of, "/"))
		} else if r.module(dir) != r.module(base) {
			return fmt.Errorf("%s is in another module than %s", p, base)
		} else if verb == "get" {
			return fmt.Errorf("%s is not a module of shale", p)
		}
		if _, ok := r.sources[dir]; !ok && !strings.HasSuffix(p, "...") || exists(dir) != nil {
			return fmt.Errorf("there is no package %s", p)
		}
		if (verb == "run" || verb == "install" && strings.HasPrefix(p, ".")) && !strings.Contains(r.sources[dir], "package main\n") {
			return fmt.Errorf("%s is not a program", p)
		}
	}
	for _, pattern := range patterns {
		pattern, _, _ = strings.Cut(pattern, "/")
		name, err := regexp.Compile(pattern)
		if err != nil {
			return err
		}
		if !r.anyIn(base, packages, func(dir string) bool { return slices.ContainsFunc(r.tests[dir], name.MatchString) }) {
			return fmt.Errorf("no test of %v has a name like %s", packages, pattern)
		}
	}
	return nil
}

// anyIn reports whether is holds for one of the packages.
func (r *repository) anyIn(base string, packages []string, is func(dir string) bool) bool {
	if len(packages) == 0 {
		packages = []string{"."}
	}
	for _, p := range packages {
		below, all := strings.CutSuffix(p, "...")
		dir := join(base, strings.TrimSuffix(below, "/"))
		for d := range r.sources {
			if (d == dir || all && (dir == "." || strings.HasPrefix(d, dir+"/"))) && is(d) {
				return true
			}
		}
	}
	return false
}

func join(base, path string) string { return filepath.ToSlash(filepath.Join(base, path)) }

// module returns the directory of the module that dir is in.
func (r *repository) module(dir string) (module string) {
	for _, m := range r.modules {
		if (m == "." || m == dir || strings.HasPrefix(dir, m+"/")) && len(m) >= len(module) {
			module = m
		}
	}
	return module
}

// checkMake checks targets, and variables before and after make.
func (r *repository) checkMake(words, variables []string) error {
	for _, w := range append(variables, words...) {
		name, _, variable := strings.Cut(w, "=")
		switch {
		case !variable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`: `).MatchString(r.makefile):
			return fmt.Errorf("the Makefile has no target %s", name)
		case variable && !regexp.MustCompile(`\$[({]`+name+`\b`).MatchString(r.makefile+r.scripts) && !r.words[name]:
			return fmt.Errorf("neither the Makefile nor a script of .ci has a variable %s", name)
		}
	}
	return nil
}

// checkShale checks the command and the options of shale against docs/COMMAND.md. A word may be a store, or stand for one.
func (r *repository) checkShale(words []string) error {
	command, known := "", false
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "--"):
			// Options of all commands are not in the help of each.
			name, _, _ := strings.Cut(w, "=")
			if !regexp.MustCompile(name+`\b`).MatchString(r.manual) && !strings.Contains(r.sources["cmd/shale/internal/command"], `"`+name[2:]+`"`) {
				return fmt.Errorf("shale has no option %s", name)
			}
		case w[0] == '-' || w[0] == '<' || i > 0 && words[i-1] == "-C":
		case regexp.MustCompile(`^[a-z]+$`).MatchString(w):
			command = w
			known = known || regexp.MustCompile("(?m)^```text\n"+w+`\b`).MatchString(r.manual) || w == "help"
		}
	}
	if command != "" && !known {
		return fmt.Errorf("docs/COMMAND.md has no command like this")
	}
	return nil
}

// checkOther checks a command and its options against the sources of the program.
func (r *repository) checkOther(program string, words []string) error {
	source := r.sources[map[string]string{"shaled": "cluster/cmd/internal/program", "shale-remote": "remote/cmd/internal/program"}[program]]
	for i, w := range words {
		name, option := strings.CutPrefix(w, "--")
		if name, _, _ = strings.Cut(name, "="); (option || i == 0) && !regexp.MustCompile(`"`+regexp.QuoteMeta(name)+`[ "]`).MatchString(source) {
			return fmt.Errorf("%s has no %s", program, w)
		}
	}
	return nil
}
