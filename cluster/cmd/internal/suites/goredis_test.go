package suites

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goRedisGroups are the groups of tests that have commands which shaled has, or are about connections.
const goRedisGroups = `^go-redis (Commands (server|keys|scanning|strings|marshaling|json)|BitCount|Probabilistic .* bloom|` +
	`pipelining|Tx|Client|Conn|ScanIterator|pool|Hook)`

// TestGoRedis runs the tests of go-redis, of the version that the other tests here use. They and what they need come from where modules
// come from.
func TestGoRedis(t *testing.T) {
	if os.Getenv("SHALE_LONG") == "" {
		t.Skip("it takes minutes: set SHALE_LONG")
	}
	dir, s := t.TempDir(), serve(t)
	source := strings.TrimSpace(run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/redis/go-redis/v9"))
	mustNil(t, os.CopyFS(dir, os.DirFS(source)))
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	mustNil(t, err)
	for _, file := range tests {
		text, err := os.ReadFile(file)
		mustNil(t, err)
		mustNil(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(text), ":6379", ":"+s.port)), 0o600))
	}
	edit(t, filepath.Join(dir, "main_test.go"),
		`redisStackPort = "6379"`, `redisStackPort = "`+s.port+`"`,
		"if !RECluster {", "if false {") // rings, sentinels and a cluster
	report := filepath.Join(dir, "report.json")
	text := run(t, dir, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "test", "-vet=off", "-timeout", "1h", "-run", "^TestGinkgoSuite$", ".",
		"-ginkgo.no-color", "-ginkgo.json-report", report, "-ginkgo.focus", goRedisGroups)
	readGinkgo(t, report, text)
}

// readGinkgo judges the report of a suite of Ginkgo.
func readGinkgo(t *testing.T, report, printed string) {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("the tests did not run:\n%s", printed)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts    []string
			LeafNodeType, LeafNodeText string
			State                      string
			Failure                    struct{ Message, ForwardedPanic string }
		}
	}
	mustNil(t, json.Unmarshal(text, &suites))
	out := outcome{failed: make(map[string]string), ignored: make(map[string]int)}
	for _, test := range suites[0].SpecReports {
		name := strings.Join(append(test.ContainerHierarchyTexts, test.LeafNodeText), " ")
		switch {
		case test.LeafNodeType != "It" && test.State != "passed":
			t.Fatalf("%s: %s", test.LeafNodeType, test.Failure.Message)
		case test.LeafNodeType != "It":
		case test.State == "passed":
			out.passed = append(out.passed, name)
		case test.State == "skipped":
			if test.Failure.Message != "" { // else it is of another group
				out.ignored[test.Failure.Message]++
			}
		case test.State == "pending":
			out.ignored["go-redis has them off"]++
		default:
			out.failed[name] = test.Failure.Message + test.Failure.ForwardedPanic
		}
	}
	judge(t, "goredis", out)
}
