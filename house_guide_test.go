package shale_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The guide has one heading and one block of code for each of its ten tasks. The blocks are the bodies of the functions of
// example_guide_test.go, which Example_guide runs. Other stores need 53 lines and more for such tasks.
func TestGuide_Code(t *testing.T) {
	guide, err := os.ReadFile("docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks := regexp.MustCompile("(?ms)^### (\\d+\\. [^\n]*)\n\n```go\n(.*?)^```").FindAllSubmatch(guide, -1)
	bodies := bodiesUpTo(t, "example_guide_test.go", "useMap")
	if len(tasks) != 10 || len(bodies) != 10 {
		t.Fatalf("%d tasks in the guide, %d functions in example_guide_test.go, want 10", len(tasks), len(bodies))
	}
	lines := 0
	for i, task := range tasks {
		if name, code := string(task[1]), string(task[2]); !strings.HasPrefix(name, fmt.Sprint(i+1, ". ")) || code != bodies[i] {
			t.Errorf("task %d of docs/GUIDE.md is %q with this code:\n%sexample_guide_test.go has:\n%s", i+1, name, code, bodies[i])
		}
		for line := range strings.Lines(bodies[i]) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
	}
	if says := fmt.Sprintf("%d lines", lines); lines >= 53 || !strings.Contains(string(guide), says) {
		t.Errorf("the ten tasks take %s: docs/GUIDE.md must say so, and 53 are too many", says)
	}
}

// bodiesUpTo returns what is between the braces of the functions of a file, up to one of them, as it would be in a document.
func bodiesUpTo(t *testing.T, file, last string) (bodies []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		body := string(source[fset.Position(f.Body.Lbrace).Offset+len("{\n") : fset.Position(f.Body.Rbrace).Offset])
		bodies = append(bodies, regexp.MustCompile(`(?m)^\t`).ReplaceAllString(body, ""))
		if f.Name.Name == last {
			break
		}
	}
	return bodies
}
