package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
)

// SettingOptions may stand behind every command.
var SettingOptions = []Option{
	{Name: "mode", Arg: "MODE", Values: output.DisplayNames, help: "lay out what is printed"},
	{Name: "timer", help: "tell how long the command took"},
}

// setFor sets what the options of one command ask for, and returns what sets it
// back.
func (s *Session) setFor(a Arguments) (restore func(), err error) {
	before, timed := s.Display, s.Timer
	name, modeGiven := a.settings["mode"]
	_, timerGiven := a.settings["timer"]
	if modeGiven {
		d, err := DisplayOf(name)
		if err != nil {
			return nil, &Mistake{from: a.places["mode"].from, to: a.places["mode"].to, err: err}
		}
		s.Display = d
	}
	s.Timer = s.Timer || timerGiven
	return func() {
		if modeGiven {
			s.Display = before
		}
		if timerGiven {
			s.Timer = timed
		}
	}, nil
}

// note prints a line about a command beside its output.
func (s *Session) note(text string, args ...any) {
	_ = s.Out.Flush() // whoever prints next is told
	fmt.Fprintf(s.Notes, text+"\n", args...)
}

// remarks is where lines about a table go: below it, and beside it where it is
// for programs.
func (s *Session) remarks() io.Writer {
	switch s.Display {
	case output.ShowJSON, output.ShowJSONLines, output.ShowCSV, output.ShowTSV:
		_ = s.Out.Flush() // whoever prints next is told
		return s.Notes
	}
	return s.Out
}

// explainGet tells in a line how a get of key goes. It does what the get will
// do, before it: blocks that it reads are in the cache then.
func (s *Session) explainGet(key []byte) (line string, err error) {
	x, err := s.DB.Explain(key)
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
		output.Plural(asked, "level"), output.Plural(places, "place"), no, yes+wrong, wrong, blocks, base.FormatBytes(bytes), cached, output.Took(x.Duration)), nil
}

func DisplayOf(name string) (output.Display, error) {
	for i, n := range output.DisplayNames {
		if n == name {
			return output.Display(i), nil
		}
	}
	if meant := didYouMean(name, output.DisplayNames); meant != "" {
		return 0, fmt.Errorf("%s is no mode%s", output.Quote(name), meant)
	}
	return 0, fmt.Errorf("%s is no mode; modes are %s", output.Quote(name), strings.Join(output.DisplayNames, ", "))
}
