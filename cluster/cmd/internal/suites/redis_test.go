package suites

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// redisUnits are the units of Redis's tests that have commands which shaled has.
var redisUnits = []string{
	"type/string", "type/incr", "expire", "bitops", "multi", "scan", "keyspace", "protocol", "quit", "auth",
}

// redisTags are what tests need that Redis gives to no server which it has not started, or that shaled has not, by the tags of those tests.
var redisTags = map[string]string{
	"needs:debug":            "DEBUG",
	"needs:repl":             "the stream that replicas get",
	"needs:config-maxmemory": "CONFIG SET maxmemory",
}

// redisIgnores are what the tests of Redis say when they leave out some by themselves.
var redisIgnores = map[string]string{
	"Not supported on singledb":        "a second database",
	"Not supported on external server": "a Redis of their own",
	"large memory flag not provided":   "gigabytes of memory",
}

// TestRedis runs the unit tests of Redis 7.0.15 on shaled. Debian has their source as the package redis (apt-get source redis).
func TestRedis(t *testing.T) {
	source := given(t, "REDIS", "Redis")
	if _, err := exec.LookPath("tclsh"); err != nil {
		t.Fatal("no tclsh here: Debian's package is tcl")
	}
	dir := t.TempDir()
	mustNil(t, os.CopyFS(filepath.Join(dir, "tests"), os.DirFS(filepath.Join(source, "tests"))))
	makeExternal(t, filepath.Join(dir, "tests"))
	out := outcome{failed: make(map[string]string), ignored: make(map[string]int)}

	tags := []string{"-password"}
	for tag := range redisTags {
		tags = append(tags, "-"+tag)
	}
	args := []string{"--tags", strings.Join(tags, " ")}
	for _, unit := range redisUnits {
		args = append(args, "--single", "unit/"+unit)
	}
	runRedis(t, &out, dir, serve(t).port, args...)

	password := filepath.Join(dir, "password")
	mustNil(t, os.WriteFile(password, []byte("foobar\n"), 0o600))
	runRedis(t, &out, dir, serve(t, "--password-file", password).port, "--single", "unit/auth", "--tags", "password")
	runRedis(t, &out, dir, serve(t, "--max-clients", "10").port, "--single", "unit/limits")
	judge(t, "redis", out)
}

// makeExternal changes the tests so that they ask less of a server that they have not started: no FUNCTION, which they send before each
// group, and no settings of the groups whose settings the servers here have from their start.
func makeExternal(t *testing.T, tests string) {
	t.Helper()
	edit(t, filepath.Join(tests, "support/server.tcl"),
		"    r function flush\n", "",
		"    r flushall\n", "    catch {r flushall}\n",
		"foreach {param val} $overrides {", "foreach {param val} {} {")
	edit(t, filepath.Join(tests, "unit/auth.tcl"),
		`{tags {"auth external:skip"} overrides`, `{tags {"password"} overrides`,
		`{tags {"auth external:skip"}}`, `{tags {"auth"}}`)
	edit(t, filepath.Join(tests, "unit/limits.tcl"), " external:skip", "")
}

// edit replaces texts of a file, each of which has to be there.
func edit(t *testing.T, file string, oldNew ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	mustNil(t, err)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(string(text), oldNew[i]) {
			t.Fatalf("%s has no %q: is it of Redis 7.0.15?", file, oldNew[i])
		}
	}
	mustNil(t, os.WriteFile(file, []byte(strings.NewReplacer(oldNew...).Replace(string(text))), 0o600))
}

var (
	colours    = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	okLine     = regexp.MustCompile(`^\[ok\]: (.*) \(\d+ ms\)$`)
	failLine   = regexp.MustCompile(`^\[err\]: (.*) in tests/unit/(.*)\.tcl$`)
	ignoreLine = regexp.MustCompile(`^\[ignore\]: (?:.*: )?(Tag: (.*) denied|Not supported on .*|large memory .*)$`)
)

// runRedis runs some units on the server at a port, and adds to out what they have come to.
func runRedis(t *testing.T, out *outcome, dir, port string, args ...string) {
	t.Helper()
	args = append([]string{"tests/test_helper.tcl", "--host", "127.0.0.1", "--port", port,
		"--singledb", "--ignore-encoding", "--ignore-digest", "--durable", "--timeout", "120"}, args...)
	text := colours.ReplaceAllString(run(t, dir, nil, "tclsh", args...), "")
	unit, failing := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if rest, ok := strings.CutPrefix(line, "Testing unit/"); ok {
			unit = rest
		} else if m := okLine.FindStringSubmatch(line); m != nil {
			out.passed, failing = append(out.passed, unit+": "+m[1]), ""
		} else if m := failLine.FindStringSubmatch(line); m != nil {
			failing = m[2] + ": " + m[1]
			out.failed[failing] = ""
		} else if m := ignoreLine.FindStringSubmatch(line); m != nil {
			failing = ""
			switch why := m[1]; {
			case redisIgnores[why] != "":
				out.ignored[redisIgnores[why]]++
			case redisTags[m[2]] != "":
				out.ignored[redisTags[m[2]]]++
			}
		} else if strings.HasPrefix(line, "[exception]") || strings.HasPrefix(line, "[TIMEOUT]") {
			t.Fatalf("the tests of Redis have ended early:\n%s", text)
		} else if failing != "" {
			out.failed[failing] += line + "\n"
		}
	}
	if !strings.Contains(text, "The End") {
		t.Fatalf("the tests of Redis have not ended:\n%s", text)
	}
}
