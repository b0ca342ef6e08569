package harness

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A Program is a list of steps that a seed stands for. It can be run any number of times, and in part.
type Program struct {
	Seed  uint64
	Steps []Step
	// places says which steps of the whole program these are.
	places []int
}

// DrawProgram draws n steps from the operations, each as often as its weight says. The first steps
// fill the store, since an empty one would be asked in vain.
func DrawProgram(seed uint64, n int, s *Source, operations ...[]Operation) Program {
	s.Reseed(seed)
	s.Timed = true
	all := slices.Concat(operations...)
	p := Program{Seed: seed}
	for range min(10, n/4) {
		p.Steps = append(p.Steps, drawFill(s))
	}
	for len(p.Steps) < n {
		p.Steps = append(p.Steps, s.Draw(all))
	}
	return p.All()
}

// All returns the program with all of its steps numbered.
func (p Program) All() Program {
	p.places = make([]int, len(p.Steps))
	for i := range p.places {
		p.places[i] = i
	}
	return p
}

// Counts returns how often each operation is in the program.
func (p Program) Counts() map[string]int {
	counts := make(map[string]int)
	for _, s := range p.Steps {
		counts[s.Name]++
	}
	return counts
}

// part returns the program with only the steps from the given places of p.
func (p Program) part(places []int) Program {
	q := Program{Seed: p.Seed}
	for _, i := range places {
		if i < len(p.Steps) {
			q.Steps, q.places = append(q.Steps, p.Steps[i]), append(q.places, p.places[i])
		}
	}
	return q
}

// stepsEnv names the steps to run of a program, such as 0-9,31,40-44.
const stepsEnv = "SHALE_STEPS"

// Try runs a program by try, which makes its own store. If that fails, the program is shortened as
// far as it still fails, and the test fails with the steps that are left and with the line that runs
// them again. It reports whether the program went well.
func Try(t *testing.T, p Program, try func(p Program) error) bool {
	t.Helper()
	if only := os.Getenv(stepsEnv); only != "" {
		places, err := parsePlaces(only)
		if err != nil {
			t.Fatalf("%s: %v", stepsEnv, err)
		}
		p = p.part(places)
	}
	stop := testenv.Watch(2*time.Minute, func() string { return fmt.Sprintf("%s: program %d", t.Name(), p.Seed) })
	err := try(p)
	stop()
	if err == nil {
		return true
	}
	short, shortErr := shorten(p, err, try, 20*time.Second)
	var b strings.Builder
	for i, s := range short.Steps {
		fmt.Fprintf(&b, "\n%4d %.400s", short.places[i], s)
	}
	t.Errorf("program %d of %d steps: %v", p.Seed, len(p.Steps), err)
	t.Errorf("%d of its steps are enough: %v\nSHALE_SEED=%d %s=%s go test -run '^%s$' runs them again:%s",
		len(short.Steps), shortErr, p.Seed, stepsEnv, formatPlaces(short.places), t.Name(), b.String())
	return false
}

// shorten leaves out steps of a program as long as it fails: first halves, then quarters, and so on
// down to single steps (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002,
// without their complements). A failure may depend on chance, so each part has three tries.
func shorten(p Program, failure error, try func(p Program) error, limit time.Duration) (Program, error) {
	deadline := time.Now().Add(limit)
	fails := func(q Program) bool {
		for range 3 {
			if err := try(q); err != nil {
				failure = err
				return true
			}
			if time.Now().After(deadline) {
				break
			}
		}
		return false
	}
	for size := len(p.Steps) / 2; size > 0 && time.Now().Before(deadline); {
		smaller := false
		for from := 0; from < len(p.Steps) && time.Now().Before(deadline); {
			q := p.without(from, min(from+size, len(p.Steps)))
			if len(q.Steps) > 0 && fails(q) {
				p, smaller = q, true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return p, failure
}

// without returns the program without its steps from i up to j.
func (p Program) without(i, j int) Program {
	return Program{
		Seed:   p.Seed,
		Steps:  slices.Concat(p.Steps[:i], p.Steps[j:]),
		places: slices.Concat(p.places[:i], p.places[j:]),
	}
}

// formatPlaces writes ascending numbers as ranges.
func formatPlaces(places []int) string {
	var parts []string
	for i := 0; i < len(places); {
		j := i
		for j+1 < len(places) && places[j+1] == places[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(places[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", places[i], places[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func parsePlaces(s string) (places []int, err error) {
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		i, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		j := i
		if isRange {
			if j, err = strconv.Atoi(to); err != nil {
				return nil, err
			}
		}
		for ; i <= j; i++ {
			places = append(places, i)
		}
	}
	return places, nil
}

// RunLife runs a program in a life, from its first opening to its end.
func RunLife(l *Life, p Program) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; %s", err, OptionsText(&l.Opts))
			l.Abandon()
		}
	}()
	if err := l.Open(); err != nil {
		return err
	}
	for i, s := range p.Steps {
		if err := l.Do(s); err != nil {
			return fmt.Errorf("step %d, %.300s: %w", p.places[i], s, err)
		}
	}
	return l.End()
}
