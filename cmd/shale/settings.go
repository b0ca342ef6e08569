package main

import (
	"context"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
)

// settings are what .mode, .timer and .explain set, and --mode and --timer for
// one command.
type settings struct {
	display display
	timer   bool
	explain bool
}

// settingOptions may stand behind every command.
var settingOptions = []option{
	{name: "mode", arg: "MODE", values: displayNames, help: "lay out what is printed"},
	{name: "timer", help: "tell how long the command took"},
}

// with returns the settings for a command with arguments a.
func (s settings) with(a arguments) (settings, error) {
	var err error
	if name, given := a.settings["mode"]; given {
		if s.display, err = displayOf(name); err != nil {
			return s, &mistake{from: a.places["mode"].from, to: a.places["mode"].to, err: err}
		}
	}
	if _, given := a.settings["timer"]; given {
		s.timer = true
	}
	return s, nil
}

func setMode(_ context.Context, s *session, a arguments) (status, error) {
	if len(a.words) == 0 {
		fmt.Fprintln(s.out, s.display)
		return found, nil
	}
	d, err := displayOf(a.words[0].text)
	if err == nil {
		s.display = d
	}
	return found, err
}

func setTimer(_ context.Context, s *session, a arguments) (status, error) {
	return s.set(&s.timer, a)
}

func setExplain(_ context.Context, s *session, a arguments) (status, error) {
	return s.set(&s.explain, a)
}

// set sets what the first word says, and without one prints what is set.
func (s *session) set(value *bool, a arguments) (status, error) {
	words := map[bool]string{false: "off", true: "on"}
	if len(a.words) == 0 {
		fmt.Fprintln(s.out, words[*value])
		return found, nil
	}
	switch text := a.words[0].text; text {
	case words[true]:
		*value = true
	case words[false]:
		*value = false
	default:
		return failed, fmt.Errorf("%s is neither on nor off", quote(text))
	}
	return found, nil
}

// note prints a line about a command beside its output.
func (s *session) note(text string, args ...any) {
	_ = s.out.Flush() // whoever prints next is told
	fmt.Fprintf(s.notes, text+"\n", args...)
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
