package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// madeWords writes a list of n words that do not exist.
func madeWords(t testing.TB, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	var list bytes.Buffer
	for i := range n {
		w := fmt.Appendf(nil, "%08d", i)
		for j := range w {
			w[j] += 'a' - '0'
		}
		for range 2 + rng.IntN(8) {
			w = append(w, 'a'+byte(rng.IntN(26)))
		}
		fmt.Fprintf(&list, "%s\n", w)
	}
	name := filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(name, list.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The head comment shows what the program prints for the list of English words. How much memory a map
// takes depends on the version of Go.
func TestHeadComment_ShowsWhatIsPrinted(t *testing.T) {
	testenv.SkipRace(t)
	words, filter := testenv.Shared(t, "data/words-en.txt"), filepath.Join(t.TempDir(), "words.filter")
	var printed bytes.Buffer
	for _, args := range [][]string{{"build", words, filter}, {"check", filter}, {"measure", words, filter}} {
		if err := run(args, strings.NewReader("We recieve thier lettres, don’t we?\n"), &printed); err != nil {
			t.Fatal(err)
		}
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, head, _ := strings.Cut(string(source), "// print\n//\n//\t")
	head, _, _ = strings.Cut(head, "//\n")
	ofMap := regexp.MustCompile(`takes \d+`)
	if got, want := ofMap.ReplaceAllString(printed.String(), ""), ofMap.ReplaceAllString(strings.ReplaceAll(head, "//\t", ""), ""); got != want {
		t.Errorf("the program prints\n%s\nand the comment shows\n%s", got, want)
	}
}

// No word is reported as wrong, the predicted share of misspellings passes, and the filter is
// much smaller than a map.
func TestRates(t *testing.T) {
	testenv.SkipRace(t)
	words, filter := madeWords(t, 30_000), filepath.Join(t.TempDir(), "filter")
	if err := build(words, filter, io.Discard); err != nil {
		t.Fatal(err)
	}
	f, err := open(filter)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.Open(words)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var out bytes.Buffer
	if err := check(f, text, &out); err != nil || out.String() != "30000 words, 0 of them wrong\n" {
		t.Errorf("the list itself: %.80s, %v", out.String(), err)
	}
	out.Reset()
	if err := measure(words, f, &out); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out.Bytes())
	var memory, size, passed, asked int
	if _, err := fmt.Sscanf(out.String(), "a map of the words takes %d bytes, the filter %d\n%d of %d misspellings", &memory, &size, &passed, &asked); err != nil {
		t.Fatal(err)
	}
	if size != f.SizeBytes() || 8*size > 10*30_000+8*100 || memory < 15*size || asked < 27_000 {
		t.Errorf("filter %d bytes, map %d, %d misspellings", size, memory, asked)
	}
	// In 100 runs the number that pass was 0.2 roots of its mean too high on average, and varied by
	// 1.12 of them, as the lines of a filter differ: 6 are exceeded once in some millions of runs.
	mean := float64(asked) * f.FPR()
	if math.Abs(float64(passed)-mean) > 6*math.Sqrt(mean) {
		t.Errorf("%d of %d misspellings pass, predicted %.0f", passed, asked, mean)
	}
}

func TestWordsOf(t *testing.T) {
	var got []string
	for at, word := range wordsOf("Don’t 'quote' 3rd x2 naïve—ok, '' end") {
		got = append(got, fmt.Sprint(at, word))
	}
	if want := []string{"0Don’t", "9quote", "23naïve", "32ok", "39end"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRun_Refused(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(damaged, []byte("no filter"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"nonsense"}, {"check"}, {"build", "words"}, {"check", damaged}, {"measure", damaged, damaged}, {"build", damaged + "x", damaged}} {
		if err := run(args, strings.NewReader("a"), io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
