package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// grace is how long a child that was told to end may take: a session that
// compacts all at its end.
const grace = patience + time.Minute

// A parent runs one child after the other.
type parent struct {
	config
	root  string
	model *model
	figures
}

func newParent(c config, root string, out io.Writer) *parent {
	return &parent{config: c, root: root, model: newModel(c.keys), figures: newFigures(out, root)}
}

// run runs lives until the time is over, and the last one.
func (p *parent) run(ctx context.Context) error {
	defer p.summary()
	for life, last := 0, false; !last; life++ {
		last = time.Since(p.begin) >= p.time || ctx.Err() != nil
		if err := p.liveAndLearn(ctx, life, last); err != nil {
			p.violations++
			fmt.Fprintf(p.out, "FINDING (seed %d): %v\n", p.seed, err)
			return errFinding
		}
		if p.between != nil {
			p.between(life, filepath.Join(p.root, "store"))
		}
	}
	return nil
}

// liveAndLearn runs a life and then the commits that it has made.
func (p *parent) liveAndLearn(ctx context.Context, life int, last bool) error {
	if err := p.model.save(filepath.Join(p.root, "model")); err != nil {
		return err
	}
	if err := p.live(ctx, life, last); err != nil {
		return err
	}
	err := readJournal(journalPath(p.root, life), func(e entry) error { return p.model.settle(p.seed, e) })
	if err != nil {
		return fmt.Errorf("life %d: %w", life, err)
	}
	if err := os.Remove(journalPath(p.root, life)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return p.removeCopies()
}

// removeCopies removes the checkpoints that a killed child has left.
func (p *parent) removeCopies() error {
	dirs, err := filepath.Glob(filepath.Join(p.root, "copy-*"))
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// live runs a child until it is killed or ends. A child that ends in any other
// way has found something, or is a finding.
func (p *parent) live(ctx context.Context, life int, last bool) error {
	plan := planOf(p.seed, life, p.limit)
	if last {
		plan.kill = false
	}
	p.lives++
	cmd, in, out, stderr, err := p.start(order{Dir: p.root, Seed: p.seed, Life: life, Last: last})
	if err != nil {
		return err
	}
	reports := make(chan report)
	go readReports(out, reports)
	ended := time.After(plan.after) // or nil, when that was done
	hangs := time.After(plan.after + grace)
	interrupted := ctx.Done()
	if last {
		ended, interrupted = nil, nil
	}
	var killed, hung bool
	finding := ""
	for reports != nil {
		select {
		case r, ok := <-reports:
			if !ok {
				reports = nil
				break
			}
			finding = r.Finding
			p.note(r)
		case <-p.tick.C:
			p.line()
		case <-interrupted:
			interrupted, ended = nil, nil
			_, _ = io.WriteString(in, endWord) // if it is dead, Wait tells why
		case <-ended:
			if ended = nil; plan.kill {
				killed = true
				_ = cmd.Process.Kill() // likewise
			} else {
				_, _ = io.WriteString(in, endWord) // likewise
			}
		case <-hangs:
			hung = true
			_ = cmd.Process.Kill() // likewise
		}
	}
	err = cmd.Wait()
	p.endLife(killed)
	switch {
	case finding != "":
		return errors.New(finding)
	case hung:
		return fmt.Errorf("life %d did not end within %v", life, grace)
	case killed && !cmd.ProcessState.Exited(), err == nil:
		return nil
	}
	return fmt.Errorf("life %d ended by itself: %w\n%s", life, err, strings.TrimSpace(stderr.String()))
}

// start starts a child.
func (p *parent) start(o order) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader, stderr *bytes.Buffer, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, nil, err
	}
	return cmd, in, out, stderr, cmd.Start()
}

// readReports sends what a child reports until its end.
func readReports(out io.Reader, reports chan<- report) {
	defer close(reports)
	dec := json.NewDecoder(bufio.NewReader(out))
	for {
		var r report
		if dec.Decode(&r) != nil {
			return // it ended, perhaps in the middle of a report
		}
		reports <- r
	}
}
