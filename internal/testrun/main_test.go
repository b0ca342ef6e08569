package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run has go test run the tests of a small module, and returns what is printed.
func run(t *testing.T, tests, rules string, args ...string) (r *report, printed string, unlisted int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module github.com/shaledb/shale/x\n\ngo 1.25\n", "x_test.go": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	allowed, err := parseRules(rules, conditionsHere(args))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r = newReport(&out)
	cmd := goTest(append([]string{"-C", dir}, args...))
	events, err := cmd.Output()
	t.Logf("go test: %v", err)
	if err := r.read(bytes.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	unlisted = r.summary(3, allowed, true, time.Second, time.Second)
	return r, out.String(), unlisted
}

const head = "package x\n\nimport \"testing\"\n\n"

// What fails is printed whole, and nothing of what passes.
func TestReport_Failures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests")
	}
	r, printed, _ := run(t, head+`
func TestGood(t *testing.T) { t.Log("fine") }
func TestBad(t *testing.T) {
	t.Run("good", func(t *testing.T) { t.Log("well") })
	t.Run("bad", func(t *testing.T) { t.Error("wrong") })
}
func TestLate(t *testing.T) { println("at the end"); panic("broken") }
`, "")
	for _, want := range []string{"--- FAIL: TestBad", "--- FAIL: TestBad/bad", "wrong", "at the end", "panic: broken", "goroutine ", "FAIL\tgithub.com/shaledb/shale/x",
		"1 packages, 1 tests passed, 2 failed, 0 skips"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, unwanted := range []string{"fine", "well", "=== RUN", `"Action"`} {
		if strings.Contains(printed, unwanted) {
			t.Errorf("%q is printed", unwanted)
		}
	}
	if t.Failed() {
		t.Logf("%d failed:\n%s", r.failed, printed)
	}
	if _, printed, _ = run(t, head+"func TestX(t *testing.T) { wrong() }\n", ""); !strings.Contains(printed, "undefined: wrong") {
		t.Errorf("tests that do not build:\n%s", printed)
	}
}

// Only skips that the list allows, under conditions that hold, are right. Parts of tests count too.
func TestReport_Skips(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tests")
	}
	const tests = head + `
func TestGood(t *testing.T) {}
func TestShort(t *testing.T) { if testing.Short() { t.Skip("takes long") } }
func TestParts(t *testing.T) { t.Run("a part", func(t *testing.T) { t.Skip("no disk") }) }
`
	const rules = `
# a comment
-short | x TestShort: takes | it takes long
always | TestParts/.*no disk | nothing to fill
`
	_, printed, unlisted := run(t, tests, rules, "-short")
	if unlisted != 0 || !strings.Contains(printed, "2 skips") || !strings.Contains(printed, "1 skipped: it takes long") {
		t.Errorf("%d skips are not allowed:\n%s", unlisted, printed)
	}
	_, printed, unlisted = run(t, tests, strings.ReplaceAll(rules, "-short |", "-race |"), "-short")
	if unlisted != 1 || !strings.Contains(printed, "not in the list: x TestShort: takes long") {
		t.Errorf("%d skips are not allowed, want one:\n%s", unlisted, printed)
	}
}

// A list with a mistake is refused: a rule that is misread would allow what it should not.
func TestParseRules(t *testing.T) {
	for _, text := range []string{"always | x", "always | x | ", "sometimes | x | why", "always | ( | why", "-short, | x | why"} {
		if _, err := parseRules(text, conditionsHere(nil)); err == nil {
			t.Errorf("%q is taken for a rule", text)
		}
	}
	text, err := os.ReadFile("../../.ci/skips")
	if err != nil {
		t.Fatal(err)
	}
	if rules, err := parseRules(string(text), conditionsHere(nil)); err != nil || len(rules) == 0 {
		t.Errorf(".ci/skips: %d rules, %v", len(rules), err)
	}
}
