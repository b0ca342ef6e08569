package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A rule is a line of the list: when a skip is right, which ones, and why. Its columns are separated by
// bars. Empty lines, and those that begin with #, say nothing.
//
//	-short | remote/s3 TestProxy_Suite: | it takes half a minute
//
// The first column has conditions, all of which must hold:
//
//	always          it is no test for this run, such as one of a child process
//	-short, -race   go test has this flag
//	brief           SHALE_LONG is not set
//	on NAME         the tests are built for this processor or system (GOARCH, GOOS)
//	no NAME         there is no such program; with a slash in it, no such file
//	no root         the process has no privileges
//	no mounts       the process may not mount file systems, such as root in most containers
//
// The second one is a regular expression, which is looked for in a line about the skip: the directory of
// the package, the test, a colon, and what the test said.
type rule struct {
	holds   bool
	pattern *regexp.Regexp
	reason  string
}

// String is what the patterns of rules are looked for in.
func (s skip) String() string {
	dir := strings.TrimPrefix(strings.TrimPrefix(s.pkg, "github.com/shaledb/shale"), "/")
	if dir == "" {
		dir = "."
	}
	return fmt.Sprintf("%s %s: %s", dir, s.test, s.message)
}

// parseRules reads the list. holds says which conditions hold.
func parseRules(text string, holds func(condition string) (holds, known bool)) ([]rule, error) {
	var rules []rule
	n := 0
	for text := range strings.Lines(text) {
		n++
		if text = strings.TrimSpace(text); text == "" || text[0] == '#' {
			continue
		}
		columns := strings.Split(text, " | ")
		if len(columns) != 3 {
			return nil, fmt.Errorf("line %d: %d columns, want 3: when | which | why", n, len(columns))
		}
		for i := range columns {
			if columns[i] = strings.TrimSpace(columns[i]); columns[i] == "" {
				return nil, fmt.Errorf("line %d: column %d is empty", n, i+1)
			}
		}
		r := rule{holds: true, reason: columns[2]}
		for condition := range strings.SplitSeq(columns[0], ",") {
			holds, known := holds(strings.TrimSpace(condition))
			if !known {
				return nil, fmt.Errorf("line %d: there is no condition %q", n, condition)
			}
			r.holds = r.holds && holds
		}
		var err error
		if r.pattern, err = regexp.Compile(columns[1]); err != nil {
			return nil, fmt.Errorf("line %d: %v", n, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// find returns the reason of the first rule that allows a skip.
func find(rules []rule, s skip) (reason string, ok bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.holds && r.pattern.MatchString(s.String()) })
	if i < 0 {
		return "", false
	}
	return rules[i].reason, true
}

// conditionsHere tells which conditions hold on this machine, with these arguments of go test.
func conditionsHere(args []string) func(condition string) (holds, known bool) {
	return func(condition string) (holds, known bool) {
		name, isNo := strings.CutPrefix(condition, "no ")
		switch {
		case condition == "always":
			return true, true
		case condition == "-short", condition == "-race":
			return slices.Contains(args, condition), true
		case condition == "brief":
			return os.Getenv("SHALE_LONG") == "", true
		case strings.HasPrefix(condition, "on "):
			name := strings.TrimPrefix(condition, "on ")
			return name == cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) || name == cmp.Or(os.Getenv("GOOS"), runtime.GOOS), true
		case condition == "no root":
			return os.Getuid() != 0, true
		case condition == "no mounts":
			return !mayMount(), true
		case isNo && strings.Contains(name, "/"):
			_, err := os.Stat(name)
			return err != nil, true
		case isNo:
			_, err := exec.LookPath(name)
			return err != nil, true
		}
		return false, false
	}
}

// mayMount reports whether the process has the capability to mount file systems (CAP_SYS_ADMIN).
func mayMount() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, text, _ := strings.Cut(string(status), "\nCapEff:\t")
	text, _, _ = strings.Cut(text, "\n")
	capabilities, err := strconv.ParseUint(text, 16, 64)
	return err == nil && capabilities&(1<<21) != 0
}
