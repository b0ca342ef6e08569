package offheap

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// races are accesses to memory of this package that are not ordered with Free.
var races = map[string]func(b []byte){
	"two writes": func(b []byte) {
		done := make(chan struct{})
		go func() {
			b[1000]++
			close(done)
		}()
		b[1000]++
		<-done
	},
	"a read and Free": func(b []byte) {
		done := make(chan struct{})
		go func() {
			b[1]++
			done <- struct{}{}
			sink += b[1<<20-1]
			done <- struct{}{}
		}()
		<-done
		Free(b)
		<-done
	},
}

var sink byte

// TestRace_IsSeen runs another process that races for memory of this package.
// The detector reports that, and does not report accesses that are ordered.
func TestRace_IsSeen(t *testing.T) {
	if name := os.Getenv("SHALE_RACE"); name != "" {
		b := Alloc(1 << 20)
		if race := races[name]; race != nil {
			race(b)
			return
		}
		b[5] = 1
		done := make(chan struct{})
		go func() {
			sink += b[5]
			close(done)
		}()
		<-done
		Free(b)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !testenv.Race {
		if testing.Short() {
			t.Skip("needs a build with the race detector")
		}
		self = filepath.Join(t.TempDir(), "race.test")
		if out, err := exec.Command("go", "test", "-c", "-race", "-o", self, ".").CombinedOutput(); err != nil {
			t.Skipf("no build with the race detector: %v: %s", err, out)
		}
	}
	run := func(name string) (string, error) {
		c := exec.Command(self, "-test.run", "^TestRace_IsSeen$", "-test.timeout", "1m")
		c.Env = append(os.Environ(), "SHALE_RACE="+name)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for name := range races {
		if out, err := run(name); err == nil || !strings.Contains(out, "WARNING: DATA RACE") {
			t.Errorf("%s: %v: no race is reported:\n%s", name, err, out)
		}
	}
	if out, err := run("none"); err != nil {
		t.Errorf("without a race: %v:\n%s", err, out)
	}
}
