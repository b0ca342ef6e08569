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

// A parent runs one child after the other.
type parent struct {
	config
	root  string
	model *model
	trend trend // of all lives

	out         io.Writer
	begin       time.Time
	told        time.Time // of the last line
	lives       int
	kills       int
	total, last counts    // of the children that are dead, and of the present one
	peak        resources // since the last line
}

func newParent(c config, root string, out io.Writer) *parent {
	return &parent{config: c, root: root, model: new(model), out: out, begin: time.Now(), told: time.Now(),
		trend: trend{name: "the store in the course of the run"}}
}

// run runs lives until the time is over, and the last one.
func (p *parent) run(ctx context.Context) error {
	for life, last := 0, false; !last; life++ {
		last = time.Since(p.begin) >= p.time || ctx.Err() != nil
		if err := p.liveAndLearn(ctx, life, last); err != nil {
			return p.finding(err)
		}
		if p.between != nil {
			p.between(filepath.Join(p.root, "store"))
		}
	}
	if err := p.trend.check(); err != nil {
		return p.finding(err)
	}
	p.line()
	fmt.Fprintln(p.out, "no finding")
	return nil
}

// finding prints a finding.
func (p *parent) finding(err error) error {
	p.line()
	fmt.Fprintf(p.out, "FINDING (seed %d): %v\n", p.seed, err)
	return errFinding
}

// line prints the figures, of memory the largest since the last line.
func (p *parent) line() {
	fmt.Fprintf(p.out, "%8v  lives %d  kills %d", time.Since(p.begin).Round(time.Second), p.lives, p.kills)
	for i, name := range countNames {
		fmt.Fprintf(p.out, "  %s %d", name, p.total[i]+p.last[i])
	}
	fmt.Fprintf(p.out, "  disk %.1f MB  %v\n", float64(usage(filepath.Join(p.root, "store"), ""))/mega, p.peak)
	p.peak, p.told = resources{}, time.Now()
}

// liveAndLearn runs a life and then the steps that it has made.
func (p *parent) liveAndLearn(ctx context.Context, life int, last bool) error {
	if err := p.model.save(filepath.Join(p.root, "model")); err != nil {
		return err
	}
	if err := p.live(ctx, life, last); err != nil {
		return err
	}
	journal := filepath.Join(p.root, "journal")
	if err := p.model.settle(p.seed, life, p.keys, journal); err != nil {
		return fmt.Errorf("life %d: %w", life, err)
	}
	if err := os.Remove(journal); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// live runs a child until it is killed or ends. A child that ends in any other way has found
// something, or is a finding. The last child ends by itself.
func (p *parent) live(ctx context.Context, life int, last bool) error {
	o := order{Dir: p.root, Seed: p.seed, Life: life, Last: last, Keys: p.keys}
	r := draws(p.seed, "life", life)
	kill := !last
	switch n := r.IntN(20); {
	case n < 5: // in Open, or soon after
		o.After = between(r, time.Millisecond, 300*time.Millisecond)
	case n < 13:
		o.After = between(r, 200*time.Millisecond, 15*time.Second)
	case n < 18:
		o.After, kill = between(r, 2*time.Second, 20*time.Second), false
	default: // long enough for a leak to show
		o.After = between(r, 80*time.Second, 5*time.Minute)
		kill = kill && r.IntN(2) == 0
	}
	o.After = min(o.After, p.limit, p.time-time.Since(p.begin)+time.Second)
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	limit := o.After + patience + time.Minute
	if kill {
		limit = o.After
	}
	if last {
		ctx = context.WithoutCancel(ctx)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.lives++
	end := func() { _ = cmd.Process.Kill() } // if it is dead, Wait says why
	timer := time.AfterFunc(limit, end)
	defer context.AfterFunc(ctx, end)()
	closed := trend{name: fmt.Sprintf("life %d", life)}
	finding := p.listen(out, &closed)
	late := !timer.Stop()
	err = cmd.Wait()
	for i, n := range p.last {
		p.total[i] += n
	}
	p.last = counts{}
	switch ended := cmd.ProcessState.Exited(); {
	case finding != "":
		return errors.New(finding)
	case !ended && (kill || ctx.Err() != nil):
		p.kills++
	case !ended && late:
		return fmt.Errorf("life %d did not end within %v", life, limit)
	case err != nil:
		return fmt.Errorf("life %d ended by itself: %w\n%s", life, err, strings.TrimSpace(stderr.String()))
	}
	return closed.check()
}

// listen takes the reports of a child until its end, and returns its finding.
func (p *parent) listen(out io.Reader, closed *trend) string {
	for dec := json.NewDecoder(bufio.NewReader(out)); ; {
		var r report
		if dec.Decode(&r) != nil {
			return "" // it ended, perhaps in the middle of a report
		}
		p.last = r.Counts
		p.peak = p.peak.max(r.Resources)
		if r.Finding != "" {
			return r.Finding
		}
		if r.Closed {
			closed.samples = append(closed.samples, r.Resources)
			p.trend.samples = append(p.trend.samples, r.Resources)
		}
		if time.Since(p.told) >= p.every {
			p.line()
		}
	}
}
