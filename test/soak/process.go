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
	"strings"
	"time"
)

// A process is a child as its parent sees it.
type process struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    io.Reader
	stderr bytes.Buffer

	// What came of it.
	finding      string
	killed, hung bool
	closed       trend
}

// live runs a child until it is killed or ends. A child that ends in any other
// way has found something, or is a finding.
func (p *parent) live(ctx context.Context, life int, last bool) error {
	plan := planOf(p.seed, life, min(p.limit, p.time-time.Since(p.begin)+time.Second))
	c, err := startChild(order{Dir: p.root, Seed: p.seed, Life: life, Last: last})
	if err != nil {
		return err
	}
	p.lives++
	c.closed.name = fmt.Sprintf("life %d", life)
	p.attend(ctx, c, plan, last)
	err = c.cmd.Wait()
	p.endLife(c.killed)
	switch {
	case c.finding != "":
		return errors.New(c.finding)
	case c.hung:
		return fmt.Errorf("life %d did not end within %v", life, grace)
	case c.killed && !c.cmd.ProcessState.Exited(), err == nil:
		return c.closed.check()
	}
	return fmt.Errorf("life %d ended by itself: %w\n%s", life, err, strings.TrimSpace(c.stderr.String()))
}

// startChild starts a child.
func startChild(o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	c := &process{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// attend takes a child's reports until it has ended, and ends it as planned. The
// last child ends by itself.
func (p *parent) attend(ctx context.Context, c *process, plan plan, last bool) {
	reports := make(chan report)
	go c.read(reports)
	ended, interrupted := time.After(plan.after), ctx.Done()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var age clock
	if last {
		ended, interrupted = nil, nil
	}
	for {
		select {
		case r, ok := <-reports:
			if !ok {
				return
			}
			c.finding = r.Finding
			p.note(r)
			if r.Closed {
				c.closed.add(r.resources)
				p.trend.add(r.resources)
			}
		case <-p.tick.C:
			p.line()
		case <-interrupted:
			ended, interrupted = nil, nil
			c.tellEnd()
		case <-ended:
			if ended = nil; plan.kill {
				c.killed = true
				c.kill()
			} else {
				c.tellEnd()
			}
		case <-ticker.C:
			if age.advance(); age.now() > plan.after+grace && !c.hung {
				c.hung = true
				c.kill()
			}
		}
	}
}

// kill kills the child. If it is dead, Wait tells why.
func (c *process) kill() { _ = c.cmd.Process.Kill() }

// tellEnd tells the child to end. If it is dead, Wait tells why.
func (c *process) tellEnd() { _, _ = io.WriteString(c.in, endWord) }

// read sends what the child reports until its end.
func (c *process) read(reports chan<- report) {
	defer close(reports)
	dec := json.NewDecoder(bufio.NewReader(c.out))
	for {
		var r report
		if dec.Decode(&r) != nil {
			return // it ended, perhaps in the middle of a report
		}
		reports <- r
	}
}
