package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// settingOptions may stand behind every command.
var settingOptions = []option{
	{name: "mode", arg: "MODE", values: displayNames, help: "lay out what is printed"},
	{name: "timer", help: "tell how long the command took"},
}

// setFor sets what the options of one command ask for, and returns what sets it
// back.
func (s *session) setFor(a arguments) (restore func(), err error) {
	before, timed := s.display, s.timer
	name, modeGiven := a.settings["mode"]
	_, timerGiven := a.settings["timer"]
	if modeGiven {
		d, err := displayOf(name)
		if err != nil {
			return nil, &mistake{from: a.places["mode"].from, to: a.places["mode"].to, err: err}
		}
		s.display = d
	}
	s.timer = s.timer || timerGiven
	return func() {
		if modeGiven {
			s.display = before
		}
		if timerGiven {
			s.timer = timed
		}
	}, nil
}

// note prints a line about a command beside its output.
func (s *session) note(text string, args ...any) {
	_ = s.out.Flush() // whoever prints next is told
	fmt.Fprintf(s.notes, text+"\n", args...)
}

// remarks is where lines about a table go: below it, and beside it where it is
// for programs.
func (s *session) remarks() io.Writer {
	switch s.display {
	case showJSON, showJSONLines, showCSV, showTSV:
		_ = s.out.Flush() // whoever prints next is told
		return s.notes
	}
	return s.out
}

// explainGet tells in a line how a get of key goes. It does what the get will
// do, before it: blocks that it reads are in the cache then.
func (s *session) explainGet(key []byte) (line string, err error) {
	x, err := s.db.Explain(key)
	if err != nil {
		return "", err
	}
	levels := map[int]bool{}
	places, no, yes, wrong, cached := 0, 0, 0, 0, 0
	for _, step := range x.Steps {
		switch step.Verdict {
		case shale.OutOfRange, shale.Skipped:
			continue
		case shale.FilterNegative:
			no++
		case shale.FalsePositive, shale.Remembered:
			wrong++
		case shale.Found, shale.Tombstone:
			yes++
		}
		places++
		levels[step.Level] = step.Level >= 0
		for _, b := range step.Blocks {
			if b.Cached {
				cached++
			}
		}
	}
	asked := 0
	for _, isLevel := range levels {
		if isLevel {
			asked++
		}
	}
	blocks, bytes := x.BlocksRead()
	return fmt.Sprintf("asked: %s, %s; filters: %d no, %d maybe (%d wrong); blocks: %d read (%s), %d cached; %v",
		plural(asked, "level"), plural(places, "place"), no, yes+wrong, wrong, blocks, base.FormatBytes(bytes), cached, took(x.Duration)), nil
}

func displayOf(name string) (display, error) {
	for i, n := range displayNames {
		if n == name {
			return display(i), nil
		}
	}
	if meant := didYouMean(name, displayNames); meant != "" {
		return 0, fmt.Errorf("%s is no mode%s", quote(name), meant)
	}
	return 0, fmt.Errorf("%s is no mode; modes are %s", quote(name), strings.Join(displayNames, ", "))
}
