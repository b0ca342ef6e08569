// Testrun runs go test and says what a gate has to know besides its answer: how many tests ran, which
// were skipped, and how long each package took.
//
//	go run ./internal/testrun [-skips FILE] -- [ARGUMENTS OF go test]
//
// It prints what go test prints: a line for each package, and all that a package says which fails. Then
// come the slowest packages, and the skips by their reasons. A skip that is not in the list of the file is
// a failure; skips.go says what the list looks like.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("testrun: ")
	file := flag.String("skips", "", "the `file` that lists which skips are right; without it, all are")
	slowest := flag.Int("slowest", 8, "prints the times of `n` packages")
	flag.Parse()
	var allowed []rule
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			log.Fatal(err)
		}
		if allowed, err = parseRules(string(text), conditionsHere(flag.Args())); err != nil {
			log.Fatalf("%s: %v", *file, err)
		}
	}
	begin := time.Now()
	cmd := goTest(flag.Args())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	r := newReport(os.Stdout)
	readErr := r.read(out)
	err = cmd.Wait() // before this, nothing is known of its time
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	unlisted := r.summary(*slowest, allowed, *file != "", time.Since(begin), cpu)
	if err := cmp.Or(readErr, err); err != nil {
		log.Fatalf("go test: %v", err)
	}
	if unlisted > 0 {
		log.Fatalf("%d skips are not in %s", unlisted, *file)
	}
}

// goTest returns the command. A directory, -C, has to be the first flag.
func goTest(args []string) *exec.Cmd {
	all := []string{"test"}
	if len(args) > 1 && args[0] == "-C" {
		all, args = append(all, args[:2]...), args[2:]
	}
	return exec.Command("go", slices.Concat(all, []string{"-json"}, args)...)
}

// An event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// A report gathers what the events say.
type report struct {
	w       io.Writer
	running map[string]*pkg // by its path
	ended   []*pkg
	passed  int // tests, without their parts
	failed  int
	skipped []skip // parts of tests too
}

// A pkg is what is known of one package's tests.
type pkg struct {
	path    string
	seconds float64
	lines   []line
	passed  map[string]bool // tests that passed or were skipped: nobody wants to read what they printed
}

// A line is a piece of output, of a test or, if test is empty, of the package.
type line struct{ test, text string }

// A skip is a test, or a part of one, that did not run, and what it said.
type skip struct{ pkg, test, message string }

func newReport(w io.Writer) *report { return &report{w: w, running: make(map[string]*pkg)} }

// read follows the events to their end. What is no event, it prints.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		var e event
		switch {
		case text == "":
		case json.Unmarshal([]byte(text), &e) != nil || e.Action == "":
			fmt.Fprint(r.w, text)
		default:
			r.add(e)
		}
		if err == io.EOF {
			for _, p := range r.running { // go test was stopped
				p.print(r.w, "fail")
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.w, e.Output)
		return
	}
	p := r.running[e.Package]
	if p == nil {
		p = &pkg{path: e.Package, passed: make(map[string]bool)}
		r.running[e.Package] = p
	}
	whole := e.Test != "" && !strings.Contains(e.Test, "/")
	switch e.Action {
	case "output":
		p.lines = append(p.lines, line{e.Test, e.Output})
		return
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, skip{p.path, e.Test, p.said(e.Test)})
		}
		fallthrough
	case "pass":
		p.passed[e.Test] = true
		if whole && e.Action == "pass" {
			r.passed++
		}
	case "fail":
		if whole {
			r.failed++
		}
	default: // a test runs, pauses or goes on
		return
	}
	if e.Test == "" {
		p.seconds = e.Elapsed
		p.print(r.w, e.Action)
		r.ended = append(r.ended, p)
		delete(r.running, e.Package)
	}
}

// place is what a line of a test's log begins with.
var place = regexp.MustCompile(`^\w+\.go:\d+: `)

// said returns what a test has printed, as one line.
func (p *pkg) said(test string) string {
	var said []string
	for _, l := range p.lines {
		if text := strings.TrimSpace(l.text); l.test == test && !chatter(text) {
			said = append(said, place.ReplaceAllString(text, ""))
		}
	}
	return strings.Join(said, " ")
}

// chatter reports whether a line says only that a test begins, goes on or ends well.
func chatter(text string) bool {
	for _, prefix := range []string{"=== ", "--- PASS", "--- SKIP"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// print prints what go test prints without -json. Of a package that fails that is all but the output of
// tests that passed. A test that has not ended, because the process has, has not passed.
func (p *pkg) print(w io.Writer, action string) {
	if action != "fail" {
		for _, l := range p.lines {
			if l.test == "" && (strings.HasPrefix(l.text, "ok  \t") || strings.Contains(l.text, "[no tests to run]")) {
				fmt.Fprint(w, l.text)
			}
		}
		return
	}
	for _, l := range p.lines {
		if !p.passed[l.test] && !strings.HasPrefix(l.text, "=== ") {
			fmt.Fprint(w, l.text)
		}
	}
}

// summary prints what go test does not, and returns how many skips no rule allows. Without check all are
// allowed.
func (r *report) summary(slowest int, allowed []rule, check bool, wall, cpu time.Duration) (unlisted int) {
	slices.SortStableFunc(r.ended, func(a, b *pkg) int { return cmp.Compare(b.seconds, a.seconds) })
	var slow []string
	for _, p := range r.ended[:min(slowest, len(r.ended))] {
		if p.seconds >= 1 {
			slow = append(slow, fmt.Sprintf("%s %.0f s", strings.TrimPrefix(p.path, "github.com/shaledb/"), p.seconds))
		}
	}
	reasons := make(map[string]int)
	for _, s := range r.skipped {
		switch reason, ok := find(allowed, s); {
		case ok:
			reasons[reason]++
		case check:
			unlisted++
			fmt.Fprintf(r.w, "SKIPPED, and not in the list: %s\n", s)
		}
	}
	fmt.Fprintf(r.w, "%d packages, %d tests passed, %d failed, %d skips; %.0f s, %.0f s of processors\n",
		len(r.ended), r.passed, r.failed, len(r.skipped), wall.Seconds(), cpu.Seconds())
	if len(slow) > 0 {
		fmt.Fprintf(r.w, "slowest: %s\n", strings.Join(slow, ", "))
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(r.w, "%5d skipped: %s\n", reasons[reason], reason)
	}
	return unlisted
}
