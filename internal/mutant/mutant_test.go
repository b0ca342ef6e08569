package mutant

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every mutant is declared for both builds and names tests that must find it,
// which .ci/mutants.txt has too; those exist.
func TestMutants(t *testing.T) {
	const root = "../.."
	described := declared(t, "off.go")
	for name := range declared(t, "on.go") {
		if _, ok := described[name]; !ok && name != "chosen" && name != "known" {
			t.Errorf("on.go has %s, off.go has not", name)
		}
	}
	on := string(mustRead(t, "on.go"))
	tests := testsOf(t, root)
	for name, doc := range described {
		if !regexp.MustCompile(fmt.Sprintf(`\b%s +=\s+is\("%s"\)`, name, dashed(name))).MatchString(on) {
			t.Errorf(`on.go does not set %s by is("%s")`, name, dashed(name))
		}
		_, named, _ := strings.Cut(doc, ": ")
		for test := range strings.SplitSeq(named, ", ") {
			if !slices.Contains(tests[dashed(name)], test) {
				t.Errorf("%s: %q ends in %q, .ci/mutants.txt has %q", name, doc, test, tests[dashed(name)])
			}
		}
		delete(tests, dashed(name))
	}
	for name := range tests {
		t.Errorf(".ci/mutants.txt: there is no %s", name)
	}
}

// Every patch in .ci/mutants says what breaks and names tests that exist.
func TestMutants_Patches(t *testing.T) {
	const root = "../.."
	patches, err := filepath.Glob(filepath.Join(root, ".ci/mutants/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		name := filepath.Base(patch)
		if !strings.HasSuffix(name, ".patch") {
			t.Errorf("%s: no patch", name)
			continue
		}
		head, _, ok := strings.Cut(string(mustRead(t, patch)), "\n--- ")
		if !ok || !regexp.MustCompile(`(?m)^Bug: .+`).MatchString(head) {
			t.Errorf("%s: no line that begins with Bug:, before the diff", name)
		}
		tests := regexp.MustCompile(`(?m)^Test: (\S+) (Test\S+)`).FindAllStringSubmatch(head, -1)
		if len(tests) == 0 {
			t.Errorf("%s: no line that begins with Test:, before the diff", name)
		}
		for _, m := range tests {
			if !hasTest(t, filepath.Join(root, m[1]), m[2]) {
				t.Errorf("%s: %s has no %s", name, m[1], m[2])
			}
		}
	}
}

// dashed returns the name for SHALE_MUTANT.
func dashed(name string) string {
	return strings.ToLower(regexp.MustCompile(`\B[A-Z]`).ReplaceAllString(name, "-$0"))
}

// declared returns the constants or variables of a file and what is said of
// them.
func declared(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			names[v.Names[0].Name] = strings.Join(strings.Fields(v.Doc.Text()), " ")
		}
	}
	return names
}

// testsOf returns the tests of each mutant, in the order of the table.
func testsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	tests := make(map[string][]string)
	for line := range strings.Lines(string(mustRead(t, filepath.Join(root, ".ci/mutants.txt")))) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		name, dir, test := fields[0], fields[1], fields[2]
		if !hasTest(t, filepath.Join(root, dir), test) {
			t.Errorf(".ci/mutants.txt: %s has no %s", dir, test)
		}
		if !slices.Contains(tests[name], test) {
			tests[name] = append(tests[name], test)
		}
	}
	return tests
}

func hasTest(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		return strings.Contains(string(mustRead(t, file)), "\nfunc "+test+"(t *testing.T) {")
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
