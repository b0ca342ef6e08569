//go:build unix

package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shaledb/shale/internal/testenv"
)

// A group is the processes of a group's members.
type group struct {
	t       testing.TB
	root    string // their directories, logs and sockets
	net     *proxyNet
	figures *figures
	failed  atomic.Bool
	setup   func(*memberConfig) // chooses options whenever a member starts
	alarms  []string            // what no member may say
	stop    chan struct{}
	wg      sync.WaitGroup

	mu      sync.Mutex
	r       *rand.Rand
	members []*process
}

// A process is a member, whether its process runs or not.
type process struct {
	g  *group
	id string

	mu      sync.Mutex
	config  memberConfig
	cmd     *exec.Cmd // nil: it does not run
	stdin   io.Closer
	client  *rpc.Client
	ended   chan struct{}
	killed  bool // by us
	wanted  bool // it is to run
	faulty  bool // something is wrong with its disk
	excused bool // something was wrong with its disk in this life of its process, so the node and its Open may fail
	again   time.Time
	deaths  int // ends of its process that Open explains

	hashMu sync.Mutex
	hashes map[string]string // of its snapshots' files; guarded by hashMu
}

// fail notes that something is wrong, and keeps the files for a look at them.
func (g *group) fail(format string, args ...any) {
	g.failed.Store(true)
	g.t.Errorf(format, args...)
}

func newGroup(t testing.TB, seed uint64, n *proxyNet, f *figures, setup func(*memberConfig)) *group {
	t.Helper()
	root, err := os.MkdirTemp("", "shale-faults") // short: names of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	g := &group{
		t: t, root: root, net: n, figures: f, setup: setup, stop: make(chan struct{}), r: rand.New(rand.NewPCG(seed, 5)),
		alarms: []string{broken, "panic:", "fatal error:", "DATA RACE", "SIGSEGV", "SIGBUS"},
	}
	g.wg.Go(g.supervise)
	return g
}

// intN draws a number.
func (g *group) intN(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.r.IntN(n)
}

// all returns the members.
func (g *group) all() []*process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

// any returns one of them.
func (g *group) any() *process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[g.r.IntN(len(g.members))]
}

// add starts a new member, which founds the group or joins it.
func (g *group) add(id string, learner bool) *process {
	listen, err := g.net.join(id)
	if err != nil {
		g.t.Fatal(err)
	}
	p := &process{g: g, id: id, wanted: true, hashes: map[string]string{}}
	others := g.all()
	p.config = memberConfig{
		ID: id, Dir: filepath.Join(g.root, id), Socket: filepath.Join(g.root, id+".sock"), Listen: listen, Proxy: g.net.proxy(),
		Bootstrap: len(others) == 0, Learner: learner,
	}
	p.joinBy(others)
	p.mu.Lock()
	p.startLocked()
	p.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, p)
	return p
}

// joinBy tells the member whom to ask.
func (p *process) joinBy(others []*process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config.Join = nil
	for _, o := range others {
		if o != p {
			p.config.Join = append(p.config.Join, o.config.Listen)
		}
	}
	if p.config.Bootstrap = len(p.config.Join) == 0; p.config.Bootstrap {
		p.config.Join = nil
	}
}

// forget takes a member off the list. Its process has ended for good.
func (g *group) forget(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(m *process) bool { return m == p })
}

// startLocked starts the process.
func (p *process) startLocked() {
	g := p.g
	if g.setup != nil {
		g.setup(&p.config)
	}
	p.excused = p.faulty
	text, err := json.Marshal(p.config)
	if err != nil {
		g.t.Error(err)
		return
	}
	_ = os.Remove(p.config.Socket) // of the life before
	cmd := testenv.Self(g.t, "^TestMember_Child$")
	cmd.Env = append(os.Environ(), memberEnv+"="+string(text), "GOTRACEBACK=all", "GORACE=halt_on_error=1")
	endWithParent(cmd)
	stderr, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		g.fail("start of %s: %v", p.id, err)
		return
	}
	g.figures.starts.Add(1)
	p.cmd, p.stdin, p.client, p.killed, p.ended = cmd, stdin, nil, false, make(chan struct{})
	scanned, begins := make(chan struct{}), fmt.Sprintf("--- %s starts: %+v\n", time.Now().Format("15:04:05.000"), p.config)
	g.wg.Go(func() {
		defer close(scanned)
		p.scan(stderr, begins)
	})
	ended := p.ended
	g.wg.Go(func() { p.connect(ended) })
	g.wg.Go(func() {
		err := cmd.Wait()
		_ = w.Close() // a pipe in memory
		<-scanned
		p.end(cmd, err)
		close(ended)
	})
}

// scan keeps what a process says in a file, behind the line begins, and looks for what it must not say.
func (p *process) scan(r io.Reader, begins string) {
	name := filepath.Join(p.g.root, p.id+".log")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.g.fail("%v", err)
		_, _ = io.Copy(io.Discard, r)
		return
	}
	defer f.Close()
	_, _ = f.WriteString(begins)
	in := bufio.NewReader(r)
	alarm := 0 // lines that are still told
	for {
		line, err := in.ReadString('\n')
		_, _ = f.WriteString(line)
		if alarm == 0 && slices.ContainsFunc(p.g.alarms, func(a string) bool { return strings.Contains(line, a) }) {
			p.g.figures.panics.Add(1)
			p.g.fail("member %s, see %s:", p.id, name)
			alarm = 60
		}
		if alarm > 0 {
			p.g.t.Log(strings.TrimRight(line, "\n"))
			alarm--
		}
		if err != nil {
			return
		}
	}
}

// connect makes the connection to a process that has begun.
func (p *process) connect(ended chan struct{}) {
	for {
		c, err := rpc.Dial("unix", p.config.Socket)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.ended == ended && p.cmd != nil {
				p.client = c
			} else {
				_ = c.Close() // to a process that has ended
			}
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// end notes that the process has ended, and finds out why.
func (p *process) end(cmd *exec.Cmd, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		_ = p.client.Close() // the other side has gone
	}
	_ = p.stdin.Close() // likewise
	p.cmd, p.client = nil, nil
	p.again = time.Now().Add(time.Duration(p.g.intN(600)) * time.Millisecond)
	if p.killed {
		return
	}
	if cmd.ProcessState.ExitCode() == exitOpen && p.excused {
		p.deaths++
		return
	}
	p.g.fail("the process of %s ended by itself: %v, see %s", p.id, err, filepath.Join(p.g.root, p.id+".log"))
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	if cmd == nil {
		p.mu.Unlock()
		return
	}
	p.killed = true
	_ = cmd.Process.Kill() // if it is dead, so much the better
	p.mu.Unlock()
	<-ended
}

// signal sends a signal to the process.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have died
	}
}

var (
	errDown    = errors.New("the process does not run")
	errTimeout = errors.New("no answer in time")
)

// call calls a method of the member. A call that was not answered may have taken effect, but for errDown.
func (p *process) call(method string, args, reply any, timeout time.Duration) error {
	p.mu.Lock()
	c := p.client
	p.mu.Unlock()
	if c == nil {
		return errDown
	}
	done := make(chan error, 1)
	go func() { done <- c.Call("Member."+method, args, reply) }() // also the sending may block
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		return errTimeout
	}
}

// statusTimeout is how long a member that runs may take to say how it is.
const statusTimeout = 400 * time.Millisecond

func (p *process) status() (*Status, error) {
	s := new(Status)
	if err := p.call("Status", struct{}{}, s, statusTimeout); err != nil {
		return nil, err // s may be written to still
	}
	return s, nil
}

// statuses asks all members at the same time. There is no entry for one that does not answer.
func (g *group) statuses() map[*process]*Status {
	all := map[*process]*Status{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range g.all() {
		wg.Go(func() {
			if s, err := p.status(); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all[p] = s
			}
		})
	}
	wg.Wait()
	return all
}

// leader returns the member that leads, nil if there is none at the moment.
func (g *group) leader() *process {
	var leader *process
	term := uint64(0)
	for p, s := range g.statuses() {
		if s.State == "Leader" && s.Failed == "" && s.Term > term {
			leader, term = p, s.Term
		}
	}
	return leader
}

// supervise does what a supervisor of services does: processes that have ended start again, and members
// that have failed are opened again.
func (g *group) supervise() {
	for n := 0; ; n++ {
		select {
		case <-g.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, p := range g.all() {
			p.mu.Lock()
			if p.wanted && p.cmd == nil && time.Now().After(p.again) {
				p.startLocked()
			}
			p.mu.Unlock()
		}
		if n%12 == 0 && len(g.all()) > 0 {
			g.any().checkSnapshots()
		}
		if n%10 > 0 {
			continue
		}
		for p, s := range g.statuses() {
			if s.Failed == "" || g.intN(3) > 0 {
				continue
			}
			g.figures.nodesFailed.Add(1)
			p.mu.Lock()
			if !p.excused && !strings.Contains(s.Failed, "issue 697") { // a partition can bring it about
				g.fail("member %s has failed without a fault: %s", p.id, s.Failed)
			}
			p.mu.Unlock()
			if g.intN(2) == 0 {
				p.kill()
			} else if err := p.call("Reopen", struct{}{}, new(struct{}), 2*closeWithin); err == nil {
				g.figures.reopened.Add(1)
			}
		}
	}
}

// setFault makes the disk of a member fail from now on, through restarts, or heals it.
func (p *process) setFault(f DiskFault) {
	p.mu.Lock()
	p.config.Fault = f
	if f != (DiskFault{}) {
		p.faulty, p.excused = true, true
	}
	p.mu.Unlock()
	_ = p.call("Fault", f, new(struct{}), statusTimeout) // one that does not run has it when it starts
}

// healed says that the disk of the member is well. What it has done to the process may show later: a log whose
// sync has failed is found to be read-only by the next write to it.
func (p *process) healed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faulty = false
}

// running reports whether the process runs and answers.
func (p *process) running() bool {
	_, err := p.status()
	return err == nil
}

// forgetSnapshots is for directories in which somebody else has made changes.
func (p *process) forgetSnapshots() {
	p.hashMu.Lock()
	defer p.hashMu.Unlock()
	p.hashes = map[string]string{}
}

// left reports whether the member has left the group for good.
func (g *group) left(p *process) bool { return !slices.Contains(g.all(), p) }

// setWanted says whether the process is to run.
func (p *process) setWanted(wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = wanted
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkSnapshots compares the files of the member's snapshots with what they were: a snapshot never changes.
func (p *process) checkSnapshots() {
	p.hashMu.Lock()
	defer p.hashMu.Unlock()
	now := map[string]string{}
	root := filepath.Join(p.config.Dir, "snapshots")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && (strings.HasSuffix(path, ".tmp") || filepath.Base(path) == "incoming") {
				return fs.SkipDir
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it has been removed meanwhile
			}
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		now[path] = fmt.Sprintf("%d bytes with checksum %08x", len(data), crc32.Checksum(data, castagnoli))
		if old := p.hashes[path]; old != "" && old != now[path] {
			p.g.fail("%sa snapshot was written to: %s was %s and is %s", broken, path, old, now[path])
		}
		p.g.figures.hashed.Add(1)
		return err
	})
	if err != nil {
		p.g.fail("%v", err)
	}
	p.hashes = now
}

// converge waits until all members have the same state, and returns it. All disks and connections work.
func (g *group) converge(within time.Duration) (map[string]string, error) {
	begin, err := time.Now(), errors.New("they were not asked, since something else has failed")
	for time.Since(begin) < within && !g.failed.Load() {
		time.Sleep(50 * time.Millisecond)
		var state map[string]string
		if err = g.settled(); err != nil {
			continue
		}
		if state, err = g.compare(); err == nil {
			if err = g.settled(); err == nil {
				return state, nil
			}
		}
	}
	return nil, fmt.Errorf("the members do not agree after %v: %w", time.Since(begin).Round(time.Millisecond), err)
}

// settled reports why members are not at the same place.
func (g *group) settled() error {
	statuses := g.statuses()
	var first *Status
	for _, p := range g.all() {
		s := statuses[p]
		switch {
		case s == nil:
			return fmt.Errorf("%s does not answer", p.id)
		case s.Failed != "":
			return fmt.Errorf("%s has failed: %s", p.id, s.Failed)
		case s.Leader == "":
			return fmt.Errorf("%s knows no leader", p.id)
		case s.Stats.Members != len(g.all()):
			return fmt.Errorf("%s knows %d members, want %d", p.id, s.Stats.Members, len(g.all()))
		case first == nil:
			first = s
		case s.Applied != first.Applied || s.Term != first.Term:
			return fmt.Errorf("%s is at %d in term %d, others at %d in %d", p.id, s.Applied, s.Term, first.Applied, first.Term)
		}
	}
	return nil
}

// compare reads the states of all members, key by key.
func (g *group) compare() (map[string]string, error) {
	members := g.all()
	states := make([]map[string]string, len(members))
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, p := range members {
		wg.Go(func() { states[i], errs[i] = p.dump() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, s := range states[1:] {
		for k, v := range states[0] {
			if w, ok := s[k]; !ok || v != w {
				return nil, fmt.Errorf("%s: %q in %s, %q (%v) in %s", k, v, members[0].id, w, ok, members[i+1].id)
			}
		}
		if len(s) != len(states[0]) {
			return nil, fmt.Errorf("%s has %d keys, %s has %d", members[0].id, len(states[0]), members[i+1].id, len(s))
		}
	}
	return states[0], nil
}

// dump returns all that a member's own state holds.
func (p *process) dump() (map[string]string, error) {
	state := map[string]string{}
	for after := ""; ; {
		e := new(Entries)
		if err := p.call("Dump", Page{after}, e, 20*time.Second); err != nil {
			return nil, fmt.Errorf("%s: %w", p.id, err)
		}
		if len(e.Keys) == 0 {
			return state, nil
		}
		for i, k := range e.Keys {
			if k <= after {
				return nil, fmt.Errorf("%s: the walk goes from %q to %q", p.id, after, k)
			}
			state[k], after = e.Values[i], k
		}
	}
}

// close ends all processes.
func (g *group) close() {
	close(g.stop)
	for _, p := range g.all() {
		p.setWanted(false)
		p.signal(syscall.SIGCONT)
		p.kill()
	}
	if err := g.net.close(); err != nil {
		g.t.Errorf("the network: %v", err)
	}
	g.wg.Wait()
	if g.t.Failed() {
		g.t.Logf("the members' logs and directories stay in %s", g.root)
		return
	}
	if err := os.RemoveAll(g.root); err != nil {
		g.t.Error(err)
	}
}

// tail returns the last lines of a member's log.
func (p *process) tail(n int) string {
	data, _ := os.ReadFile(filepath.Join(p.g.root, p.id+".log")) // "" is as good
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
