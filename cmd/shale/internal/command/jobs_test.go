package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/cmdtest"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/testenv"
)

// hostileLine returns a line without its end. It has either a few short words, so that lines
// repeat, or bytes that are hard to handle.
func hostileLine(r *rand.Rand) string {
	switch r.IntN(50) {
	case 0:
		return ""
	case 1:
		return reserved + fmt.Sprint(r.IntN(3))
	case 2:
		if r.IntN(4) == 0 {
			return strings.Repeat("x", shale.MaxKeySize+r.IntN(3)-1) // around the limit
		}
	case 3:
		return "\r" + string(rune('a'+r.IntN(3)))
	case 4:
		return "\"'<b>\x00\x1b[2J\xff\xfe" + fmt.Sprint(r.IntN(5))
	}
	b := make([]byte, 1+r.IntN(12))
	for i := range b {
		b[i] = byte(r.Uint32())
		if b[i] == '\n' || b[i] == '\r' || r.IntN(2) == 0 {
			b[i] = "ab"[r.IntN(2)]
		}
	}
	if r.IntN(3) > 0 {
		b = fmt.Appendf(nil, "http://www.example.org/%d", r.IntN(500))
	}
	return string(b)
}

// hostileInput returns n lines. They end in \n or \r\n, and the last one may have no end.
func hostileInput(r *rand.Rand, n int) (input []byte, texts []string) {
	for i := range n {
		text := hostileLine(r)
		texts = append(texts, text)
		input = append(input, text...)
		switch {
		case i == n-1 && text != "" && r.IntN(2) == 0:
		case r.IntN(4) == 0:
			input = append(input, '\r', '\n')
		default:
			input = append(input, '\n')
		}
	}
	return input, texts
}

// piecewise returns a reader of input that returns random numbers of bytes.
func piecewise(r *rand.Rand, input []byte) io.Reader {
	switch r.IntN(3) {
	case 0:
		return bytes.NewReader(input)
	case 1:
		return iotest.DataErrReader(bytes.NewReader(input))
	}
	return &piecewiseReader{r, input}
}

type piecewiseReader struct {
	r    *rand.Rand
	rest []byte
}

func (p *piecewiseReader) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(len(p.rest), 1+p.r.IntN(300))])
	p.rest = p.rest[n:]
	return n, nil
}

// dedup and filter print what maps predict, over several runs.
func TestJobsAgainstMaps(t *testing.T) {
	r := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	begin, lines, rounds := time.Now(), 0, 0
	for ; rounds < 9 && !testing.Short() || rounds < 3 || time.Since(begin) < testenv.Long(t); rounds++ {
		dir := filepath.Join(t.TempDir(), "db")
		seen := map[string]bool{}
		hash := rounds%3 == 2
		for range 1 + r.IntN(4) {
			lines += jobsRound(t, r, dir, seen, hash)
		}
	}
	t.Logf("%d lines in %d rounds, %v", lines, rounds, time.Since(begin))
}

// jobsRound runs dedup once, and filter before it.
func jobsRound(t *testing.T, r *rand.Rand, dir string, seen map[string]bool, hash bool) (lines int) {
	t.Helper()
	input, texts := hostileInput(r, r.IntN(400))
	if len(seen) > 0 {
		checkFilter(t, r, dir, seen, input, texts)
	}
	limits := feedLimits{bytes: 1 + r.IntN(5000), lines: 1 + r.IntN(100), line: 1 << 20}
	out := runDedup(t, dir, piecewise(r, input), limits, hash)
	var want []byte
	for i, line := range bytes.SplitAfter(withLastEnd(input), []byte("\n")) {
		if len(line) > 0 && !seen[texts[i]] {
			seen[texts[i]] = true
			want = append(want, line...)
		}
	}
	if !bytes.Equal(out, want) {
		t.Fatalf("dedup of %.2000q\nprinted %.2000q\nwant    %.2000q", input, out, want)
	}
	return len(texts)
}

func withLastEnd(input []byte) []byte {
	if len(input) > 0 && input[len(input)-1] != '\n' {
		return append(bytes.Clone(input), '\n')
	}
	return input
}

// runDedup runs a deduper over small batches and small memtables.
func runDedup(t *testing.T, dir string, in io.Reader, limits feedLimits, hash bool) []byte {
	t.Helper()
	db, err := shale.Open(dir, &shale.Options{MemtableSize: 16 << 10, Durability: shale.SyncManual})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out, notes bytes.Buffer
	s := &Session{in: in, Printer: output.Printer{Out: bufio.NewWriter(&out)}, Notes: &LockedWriter{W: &notes}}
	d := &deduper{db: db, hash: hash, out: lineWriter{out: s.Out}}
	d.reserve(limits)
	if err := d.checkMode(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.eachBatch(t.Context(), limits, d.add); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func checkFilter(t *testing.T, r *rand.Rand, dir string, seen map[string]bool, input []byte, texts []string) {
	t.Helper()
	args, drop := []string{"-C", dir, "filter", "--quiet"}, r.IntN(2) == 0
	if drop {
		args = append(args, "--drop")
	}
	var out, notes bytes.Buffer
	st := Run(Environment{Args: args, In: piecewise(r, input), Out: &out, Err: &notes, Getenv: func(string) string { return "" }})
	var want []byte
	for i, line := range bytes.SplitAfter(withLastEnd(input), []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if seen[texts[i]] != drop {
			want = append(want, line...)
		}
	}
	if !bytes.Equal(out.Bytes(), want) || st != foundIf(len(want) > 0) {
		t.Fatalf("filter %v of %.2000q\nprinted %.2000q, status %d, %s\nwant    %.2000q", args, input, out.Bytes(), st, notes.String(), want)
	}
}

func TestHostOf(t *testing.T) {
	for _, c := range []struct{ text, host string }{
		{"", ""}, {"example.org", "example.org"}, {" example.org.\t", "example.org"},
		{"http://example.org", "example.org"}, {"https://u:p@w@example.org:8080/a@b?c#d", "example.org"},
		{"//example.org/x", "example.org"}, {"example.org/http://other.org", "example.org"},
		{"example.org?u=//other.org", "example.org"}, {`http://example.org\@other.org`, "example.org"},
		{"http://[2001:db8::1]:80/", "2001:db8::1"}, {"2001:db8::1", "2001:db8::1"}, {"[::1", "[::1"},
		{"example.org:443", "example.org"}, {"svn+ssh://h/x", "h"}, {"://h", ""}, {"a b://h", "a b"}, {"http:///x", ""},
		{"http://\x00\xff/", "\x00\xff"}, {"@", ""}, {"http://", ""}, {"/", ""},
	} {
		if got := hostOf([]byte(c.text)); string(got) != c.host {
			t.Errorf("hostOf(%q) = %q, want %q", c.text, got, c.host)
		}
	}
}

func TestKeysOfALine(t *testing.T) {
	for _, c := range []struct {
		part linePart
		text string
		want string // keys, with | between them
	}{
		{linePart{}, "A.b C", "A.b C"},
		{linePart{host: true, parents: true}, "http://A.Example.ORG:80/X", "a.example.org|example.org|org"},
		{linePart{host: true, parents: true}, "10.0.0.1/x", "10.0.0.1"},
		{linePart{host: true, parents: true}, "http:///x", ""},
		{linePart{parents: true}, "a..b.", "a..b.|.b.|b."},
		{linePart{field: 2}, "  a \t b c", "b"}, {linePart{field: 4}, "a b c", ""}, {linePart{field: 2}, "a ", ""},
		{linePart{field: 3, separator: []byte(",")}, "a,,", ""}, {linePart{field: 4, separator: []byte(",")}, "a,,", "none"},
		{linePart{field: 2, separator: []byte("::"), host: true}, "a::HTTP://B/", "b"},
		{linePart{}, strings.Repeat("x", shale.MaxKeySize+1), string(oddKey(bytes.Repeat([]byte("x"), shale.MaxKeySize+1)))},
	} {
		var keys keyList
		c.part.keysOf([]byte(c.text), &keys)
		got := string(bytes.Join(keys.all(), []byte("|")))
		if keys.len() == 0 && c.want == "none" {
			continue
		}
		if got != c.want {
			t.Errorf("keys of %.50q by %+v = %q, want %q", c.text, c.part, got, c.want)
		}
	}
}

// A program that sends lines one by one gets each answer before it sends the next line.
func TestJobsAnswerAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	for _, args := range [][]string{{"dedup", "--quiet"}, {"filter", "--quiet"}} {
		in, lines := io.Pipe()
		answers, out := io.Pipe()
		done := make(chan Status)
		go func() {
			done <- Run(Environment{Args: append([]string{"-C", dir}, args...), In: in, Out: out, Err: io.Discard, Getenv: func(string) string { return "" }})
		}()
		for i := range 3 {
			fmt.Fprintln(lines, i)
			got := make([]byte, 2)
			if _, err := io.ReadFull(answers, got); err != nil || string(got) != fmt.Sprintln(i) {
				t.Fatalf("%v answered %q, %v; want line %d", args, got, err, i)
			}
		}
		lines.Close()
		if st := <-done; st != Found {
			t.Errorf("%v: status %d", args, st)
		}
	}
}

// An interrupt, or an error of the input, ends a job after a batch. dedup remembers everything that
// it has printed.
func TestDedupInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	in, lines := io.Pipe()
	defer lines.Close()
	s := &Session{in: in, Printer: output.Printer{Out: bufio.NewWriter(&out)}, Notes: &LockedWriter{W: io.Discard}}
	d := &deduper{db: db, out: lineWriter{out: s.Out}}
	go fmt.Fprintln(lines, "a")
	_, err = s.eachBatch(ctx, feedLimits{bytes: 100, lines: 10, line: 100}, func(b *lineBatch) error {
		cancel()
		return d.add(b)
	})
	if !errors.Is(err, context.Canceled) || out.String() != "a\n" {
		t.Errorf("interrupted: %v, printed %q", err, out.String())
	}
	if known, err := db.Has([]byte("a")); !known || err != nil {
		t.Errorf("the line printed is not remembered: %v", err)
	}
	for _, c := range []struct {
		in   io.Reader
		want string
	}{
		{io.MultiReader(strings.NewReader("a\nb\nc"), iotest.ErrReader(errors.New("torn off"))), "standard input, after 2 lines: torn off"},
		{strings.NewReader("a\n" + strings.Repeat("x", 2*feedRead) + "\nb\n"), "longer than 100 B"},
	} {
		s.in = c.in
		if _, err := s.eachBatch(t.Context(), feedLimits{bytes: 100, lines: 10, line: 100}, d.add); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// Lines that could not be printed are not remembered. The next run prints them.
func TestDedupBrokenOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	const in = "a\nb\na\n"
	var notes bytes.Buffer
	st := Run(Environment{Args: []string{"-C", dir, "dedup"}, In: strings.NewReader(in), Out: cmdtest.BrokenWriter{}, Err: &notes, Getenv: func(string) string { return "" }})
	if st != Failed || !strings.HasSuffix(notes.String(), "shale: broken pipe\n") {
		t.Errorf("status %d, %s; want 2 and the error of the output", st, &notes)
	}
	for _, want := range []string{"a\nb\n", ""} {
		if out, notes, st := call(in, "-C", dir, "dedup"); out != want || st != Found {
			t.Errorf("printed %q, status %d, %s; want %q", out, st, notes, want)
		}
	}
}

// filter works if another program has the store open. dedup does not.
func TestJobsBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := shale.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("b"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if out, notes, st := call("a\nb\n", "filter", dir, "--quiet"); out != "b\n" || notes != "" || st != Found {
		t.Errorf("filter beside a writer: %q, status %d, %s", out, st, notes)
	}
	if _, notes, st := call("a\n", "dedup", "--store", dir); st != Failed || !strings.Contains(notes, "process") {
		t.Errorf("dedup beside a writer: status %d, %q; want 2 and the owner's process", st, notes)
	}
}

// With --skip-long, lines that are too long are skipped and counted, wherever they begin and end.
// Without it they end the run.
func TestDedup_SkipLong(t *testing.T) {
	long := strings.Repeat("x", int(dedupLimits(leastMemory).line)+feedRead+1)
	for _, input := range []string{
		"a\n" + long + "\nb\na\n", long + "\na\nb\n", "a\nb\n" + long, "a\n" + long + "\n" + long + "y\nb", long + "\n" + "a\nb\n" + long + long + "\n",
	} {
		dir := filepath.Join(t.TempDir(), "db")
		skipped := strings.Count(strings.ReplaceAll(input, long+long, long), long)
		if _, notes, st := call(input, "-C", dir, "dedup", "--memory", "24M"); st != Failed || !strings.Contains(notes, "--skip-long") {
			t.Errorf("status %d, %.200s", st, notes)
		}
		dir = filepath.Join(t.TempDir(), "db")
		out, notes, st := call(input, "-C", dir, "dedup", "--memory", "24M", "--skip-long")
		if want := fmt.Sprintf("2 new, %d seen before, %d more skipped", strings.Count(input, "a\n")-1, skipped); out != "a\nb\n" || st != Found ||
			!strings.Contains(notes, want) {
			t.Errorf("status %d, %.100q, %.200s; want %s", st, out, notes, want)
		}
	}
}
