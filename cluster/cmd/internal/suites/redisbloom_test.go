package suites

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRedisBloom runs RedisBloom's tests of its Bloom filters on shaled, and again with filters of RedisBloom's layout, which are
// asked for by the word COMPATIBLE. It needs Python and Debian's python3-redis.
func TestRedisBloom(t *testing.T) {
	source := given(t, "REDISBLOOM", "RedisBloom")
	t.Run("as it is", func(t *testing.T) { testRedisBloom(t, source, "redisbloom") })
	t.Run("compatible", func(t *testing.T) { testRedisBloom(t, source, "redisbloom-compatible", "COMPATIBLE") })
}

// testRedisBloom runs the tests, with words behind the options of each filter.
func testRedisBloom(t *testing.T, source, list string, words ...string) {
	t.Helper()
	// One has chunks of up to 36 MiB, and one adds 10,000 items at a time.
	s := serve(t, "--max-command", "67108864", "--timeout", "1m")
	cmd := exec.Command("python3", append([]string{"testdata/rltest.py", s.port, filepath.Join(source, "tests/flow/test_overall.py")}, words...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	mustNil(t, err)
	stdout, err := cmd.StdoutPipe()
	mustNil(t, err)
	mustNil(t, cmd.Start())
	out := outcome{failed: make(map[string]string), ignored: make(map[string]int)}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var test struct{ Name, Result, Text string }
		switch {
		case lines.Text() == "restart":
			s.restart(t)
			_, err := fmt.Fprintln(stdin, "restarted")
			mustNil(t, err)
		case json.Unmarshal(lines.Bytes(), &test) != nil:
			t.Fatalf("rltest.py prints %q", lines.Text())
		case test.Result == "passed":
			out.passed = append(out.passed, test.Name)
		case test.Result == "skipped":
			out.ignored["another version of Redis, they say themselves"]++
		default:
			out.failed[test.Name] = test.Text
		}
	}
	mustNil(t, lines.Err())
	mustNil(t, cmd.Wait())
	judge(t, list, out)
}
