// Package shell is the prompt: it reads lines from a terminal, keeps their history,
// completes commands, options and keys, and adds the commands that begin with a dot.
package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/peterh/liner"

	"github.com/shaledb/shale/cmd/shale/internal/command"
)

// A lineEditor asks for a line and remembers those it is given; tests have one
// without a terminal. Prompt gives liner.ErrPromptAborted for Ctrl-C, io.EOF
// for Ctrl-D.
type lineEditor interface {
	Prompt(prompt string) (string, error)
	AppendHistory(line string)
}

// RunPrompt reads commands from the terminal until the end. Its status is
// found: errors were shown.
func RunPrompt(s *command.Session, env command.Environment) command.Status {
	if s.Dir == "" {
		return s.Complain(command.ErrNoDir)
	}
	line := liner.NewLiner()
	defer line.Close() // it only gives the terminal its mode back
	line.SetCtrlCAborts(true)
	line.SetTabCompletionStyle(liner.TabPrints)
	line.SetWordCompleter(func(text string, pos int) (string, []string, string) { return complete(s, text, pos) })
	h := openHistory(historyFile(env), line)
	defer h.close()

	// A Ctrl-C that comes between a command and the next prompt must not end
	// the program. During a command run listens, during a prompt the editor.
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, os.Interrupt)
	defer signal.Stop(unheard)
	return promptLoop(s, recorder{line, h})
}

// recorder is an editor that keeps its history in a file.
type recorder struct {
	*liner.State
	file *history
}

func (r recorder) AppendHistory(line string) {
	r.State.AppendHistory(line)
	r.file.append(line)
}

func promptLoop(s *command.Session, line lineEditor) command.Status {
	if err := s.OpenFor("", command.Reads); err != nil {
		s.Complain(err) // a put may still make it
	}
	s.Say("help lists the commands, Tab completes, Ctrl-C stops a command, Ctrl-D leaves.")
	aborted := 0 // prompts in a row that Ctrl-C has ended
	for {
		if err := s.Out.Flush(); err != nil {
			return s.Complain(err)
		}
		text, err := nextLine(s, line)
		switch {
		case s.Life().Err() != nil:
			fmt.Fprintln(s.Out)
			return command.Found
		case errors.Is(err, liner.ErrPromptAborted):
			if aborted++; aborted > 1 {
				s.Say("(Ctrl-D or quit leaves)")
			}
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.Out)
			return command.Found
		case err != nil:
			return s.Complain(err)
		}
		aborted = 0
		if strings.TrimSpace(text) != "" {
			line.AppendHistory(text)
		}
		if _, err := s.RunLine(text); errors.Is(err, command.ErrQuit) {
			return command.Found
		} else if err != nil {
			s.ComplainOf(text+" ", err)
		}
	}
}

// nextLine asks for a line, until the program shall end: then line must not be
// used any more, but to give the terminal its mode back.
func nextLine(s *command.Session, line lineEditor) (string, error) {
	type answer struct {
		text string
		err  error
	}
	prompt, got := s.PromptText(), make(chan answer, 1)
	go func() {
		text, err := line.Prompt(prompt)
		got <- answer{text, err}
	}()
	select {
	case a := <-got:
		return a.text, a.err
	case <-s.Life().Done():
		return "", s.Life().Err()
	}
}
