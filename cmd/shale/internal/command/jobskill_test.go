package command

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// dedupChild is an environment variable. If it is set, the test binary runs dedup with the store
// that the variable names.
const dedupChild = "SHALE_DEDUP_CHILD"

// dedup is killed again and again. Each time it gets the rest of the input, or all of it again. It
// prints each line at least once, and prints lines again only if they are from the last batch
// before a kill.
func TestDedupKilled(t *testing.T) {
	if dir := os.Getenv(dedupChild); dir != "" {
		os.Exit(int(Run(Environment{Args: []string{"-C", dir, "dedup", "--quiet", "--memory", "24M"},
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: func(string) string { return "" }})))
	}
	if testing.Short() && testenv.Race {
		t.Skip("half a second for each process under the race detector")
	}
	k := &killedDedup{
		t: t, r: rand.New(rand.NewPCG(testenv.Seed(t), 2)), dir: t.TempDir(),
		printed: map[string]bool{}, mayRepeat: map[string]bool{},
	}
	begin, kills := time.Now(), 0
	least := 6
	if testing.Short() || testenv.Race {
		least = 2
	}
	for ; kills < least || time.Since(begin) < testenv.Long(t); kills++ {
		k.runKilled()
	}
	k.runAll()
	for i, piece := range k.pieces {
		for line := range bytes.Lines(piece) {
			if !k.printed[string(line)] {
				t.Fatalf("line %q of piece %d was never printed", line, i)
			}
		}
	}
	k.runAll() // it may repeat nothing now
	t.Logf("%d kills, %d lines, %d printed again, %d cut; %v", kills, len(k.printed), k.repeated, k.cut, time.Since(begin))
}

// killedDedup feeds dedup pieces of input, and kills it.
type killedDedup struct {
	t      *testing.T
	r      *rand.Rand
	dir    string
	pieces [][]byte
	lines  int // number of lines of all pieces
	next   int // number of the next piece; the pieces before it were printed

	run, marks    int
	printed       map[string]bool
	mayRepeat     map[string]bool // printed, and perhaps not remembered
	repeated, cut int
}

// piece returns piece i. It has new lines and some lines of earlier pieces.
func (k *killedDedup) piece(i int) []byte {
	for len(k.pieces) <= i {
		var piece []byte
		n := 1 + k.r.IntN(300)
		if k.r.IntN(2) == 0 {
			n = 8_000 // it takes long enough to be killed in
		}
		for range n {
			if k.lines++; k.r.IntN(3) == 0 {
				piece = fmt.Appendf(piece, "line %d\n", 1+k.r.IntN(k.lines))
			}
			piece = fmt.Appendf(piece, "line %d\n", k.lines)
		}
		k.pieces = append(k.pieces, piece)
	}
	return k.pieces[i]
}

// start starts dedup. wait closes its input and returns what it printed.
func (k *killedDedup) start() (process *os.Process, in io.Writer, name string, wait func() ([]byte, error)) {
	k.t.Helper()
	k.run++
	name = filepath.Join(k.dir, fmt.Sprintf("out%d", k.run))
	out, err := os.Create(name)
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDedupKilled$")
	var notes bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), dedupChild+"="+filepath.Join(k.dir, "db")), out, &notes
	pipe, err := cmd.StdinPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	return cmd.Process, pipe, name, func() ([]byte, error) {
		pipe.Close()
		err := cmd.Wait()
		out.Close()
		if notes.Len() > 0 {
			k.t.Errorf("dedup says %s", &notes)
		}
		printed, readErr := os.ReadFile(name)
		if readErr != nil {
			k.t.Fatal(readErr)
		}
		return printed, err
	}
}

// runKilled feeds some pieces. Each ends with a mark, a line that is always new, and runKilled waits
// until it is printed. Then it feeds one more piece, and kills dedup during that.
func (k *killedDedup) runKilled() {
	process, in, name, wait := k.start()
	first, last := k.next, k.next+k.r.IntN(4)
	if k.r.IntN(2) == 0 {
		first = 0
	}
	mark := ""
	for i := first; i <= last; i++ {
		k.marks++
		next := fmt.Sprintf("mark %d\n", k.marks)
		_, err := in.Write(append(bytes.Clone(k.piece(i)), next...))
		if err != nil {
			k.t.Fatal(err)
		}
		if i < last {
			mark = next
			k.await(name, func(end []byte) bool { return bytes.HasSuffix(end, []byte(mark)) })
			k.next = max(k.next, i+1)
		}
	}
	if k.r.IntN(2) == 0 { // anywhere, before the first line perhaps
		time.Sleep(time.Duration(k.r.IntN(40)) * time.Millisecond)
	} else {
		k.await(name, func(out []byte) bool {
			return len(out) > 0 && !bytes.HasSuffix(out, []byte(mark)) || mark == "" && len(out) > 0
		})
	}
	if err := process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	out, _ := wait() // it was killed
	// The lines after the mark are from a later batch. So the mark was remembered before they were
	// printed.
	certain := 0
	if mark != "" {
		certain = bytes.LastIndex(out, []byte(mark)) + len(mark)
		if certain == len(out) { // the same holds for the mark before it
			certain = max(0, bytes.LastIndex(out[:len(out)-len(mark)], []byte("mark ")))
		}
	}
	k.look(out, certain)
}

// runAll gives dedup all pieces and lets it end.
func (k *killedDedup) runAll() {
	_, in, _, wait := k.start()
	for _, piece := range k.pieces {
		if _, err := in.Write(piece); err != nil {
			k.t.Fatal(err)
		}
	}
	out, err := wait()
	if err != nil {
		k.t.Fatal(err)
	}
	k.look(out, len(out))
	clear(k.mayRepeat)
}

// look checks what a run has printed. Up to the offset certain, dedup must remember it.
func (k *killedDedup) look(out []byte, certain int) {
	k.t.Helper()
	at := 0
	for line := range bytes.Lines(out) {
		at += len(line)
		text := string(line)
		switch {
		case line[len(line)-1] != '\n':
			k.cut++
			continue
		case k.printed[text] && !k.mayRepeat[text]:
			k.t.Fatalf("run %d prints %q again", k.run, line)
		case k.printed[text]:
			k.repeated++
		}
		k.printed[text] = true
		delete(k.mayRepeat, text)
		if at > certain {
			k.mayRepeat[text] = true
		}
	}
}

// await waits until good accepts the end of what was printed.
func (k *killedDedup) await(name string, good func(end []byte) bool) {
	k.t.Helper()
	f, err := os.Open(name)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	var buf [32]byte
	for begin := time.Now(); ; time.Sleep(200 * time.Microsecond) {
		info, err := f.Stat()
		if err != nil {
			k.t.Fatal(err)
		}
		n, err := f.ReadAt(buf[:], max(0, info.Size()-int64(len(buf))))
		if err != nil && err != io.EOF {
			k.t.Fatal(err)
		}
		if good(buf[:n]) {
			return
		}
		if time.Since(begin) > time.Minute {
			k.t.Fatalf("nothing is printed: run %d, %d bytes", k.run, info.Size())
		}
	}
}
