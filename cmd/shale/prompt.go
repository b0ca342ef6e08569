package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/peterh/liner"
)

// runPrompt reads commands from the terminal until the end. Its status is
// found: errors were shown.
func (s *session) runPrompt(env environment) status {
	line := liner.NewLiner()
	line.SetCtrlCAborts(true)
	line.SetTabCompletionStyle(liner.TabPrints)
	line.SetWordCompleter(s.complete)
	loadHistory(line, env)
	defer func() {
		saveHistory(line, env)
		_ = line.Close() // it only gives the terminal its mode back
	}()
	if err := s.open(&command{access: reads}); err != nil {
		s.complain(err) // a put may still make it
	}
	s.say("help lists the commands, Tab completes, Ctrl-D leaves.")
	for {
		if err := s.out.Flush(); err != nil {
			return s.complain(err)
		}
		text, err := line.Prompt("shale> ")
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.out)
			return found
		case err != nil:
			return s.complain(err)
		}
		if text != "" {
			line.AppendHistory(text)
		}
		if _, err := s.runLine(text); errors.Is(err, errQuit) {
			return found
		} else if err != nil {
			s.complain(err)
		}
	}
}

// historyFile returns where prompts keep their history, empty if nowhere.
func historyFile(env environment) string {
	if name := env.getenv("SHALE_HISTORY"); name != "" {
		return name
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "shale", "history")
}

// loadHistory reads the history, if there is one: a prompt works without.
func loadHistory(line *liner.State, env environment) {
	f, err := os.Open(historyFile(env))
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = line.ReadHistory(f) // as far as it can be read
}

// saveHistory writes the history, if it can.
func saveHistory(line *liner.State, env environment) {
	name := historyFile(env)
	if name == "" || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = line.WriteHistory(f) // nobody is left to tell
	_ = f.Close()
}
