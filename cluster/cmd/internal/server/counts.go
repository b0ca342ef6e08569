package server

import (
	"sync/atomic"
	"time"
)

// counts are what the server counts for INFO and for metrics.
//
// All are atomic, as each connection has a goroutine of its own. They begin at 0 with the process.
type counts struct {
	commands []atomic.Int64 // done since the start, by command.index

	clients, accepted, errors, wrongPasswords atomic.Int64

	// Commands and runs of commands that asked the group, and how long they took together.
	readRuns, writeRuns, readTime, writeTime atomic.Int64
}

// newCounts returns counts with a place for each command of the table.
func newCounts() counts { return counts{commands: make([]atomic.Int64, len(commands))} }

// took counts a run that has read, or else written.
func (c *counts) took(read bool, begin time.Time) {
	runs, sum := &c.writeRuns, &c.writeTime
	if read {
		runs, sum = &c.readRuns, &c.readTime
	}
	runs.Add(1)
	sum.Add(int64(time.Since(begin)))
}

// A Counts is what a Server has done since its start.
type Counts struct {
	Commands map[string]int64 // by name, those that were done at least once
	All      int64            // the sum of these

	Clients        int64 // connections now
	Accepted       int64 // connections so far
	Errors         int64 // replies that were errors
	WrongPasswords int64

	// Runs are commands, or runs of commands in a pipeline that went together, and Time how long they took in sum.
	Reads, Writes Runs
}

// Runs are calls to the group.
type Runs struct {
	N    int64
	Time time.Duration
}

// Counts returns what the server has done so far.
func (s *Server) Counts() Counts {
	n := &s.counts
	c := Counts{
		Commands: make(map[string]int64), Clients: n.clients.Load(), Accepted: n.accepted.Load(), Errors: n.errors.Load(), WrongPasswords: n.wrongPasswords.Load(),
		Reads:  Runs{n.readRuns.Load(), time.Duration(n.readTime.Load())},
		Writes: Runs{n.writeRuns.Load(), time.Duration(n.writeTime.Load())},
	}
	for _, t := range commands {
		if done := n.commands[t.index].Load(); done > 0 {
			c.Commands[t.Name] = done
			c.All += done
		}
	}
	return c
}
