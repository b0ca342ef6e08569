// Package shell is the prompt: it reads lines from a terminal, keeps their history, and completes
// commands, options and keys.
//
// The editor is peterh/liner, behind the interface lineEditor. All that a line does is in package
// command, so a prompt can do nothing that a script can't.
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

// A lineEditor reads a line from the user, and has a history of lines. Tests have one without a
// terminal. Prompt returns liner.ErrPromptAborted after Ctrl-C, and io.EOF after Ctrl-D.
//
// One goroutine calls it at a time.
type lineEditor interface {
	Prompt(prompt string) (string, error)
	AppendHistory(line string)
}

// RunPrompt reads commands from the terminal until the user leaves. Its status is Found, because
// errors were shown.
//
// The editor sets the terminal to a mode without echo and line buffering. close restores it, also
// after a panic.
func RunPrompt(s *command.Session, env command.Environment) command.Status {
	if s.Dir == "" {
		return s.Complain(command.ErrNoDir)
	}
	line := liner.NewLiner()
	defer line.Close() // it only restores the mode of the terminal
	line.SetCtrlCAborts(true)
	line.SetMultiLineMode(true) // a long line is wrapped
	line.SetTabCompletionStyle(liner.TabPrints)
	line.SetWordCompleter(func(text string, pos int) (string, []string, string) { return complete(s, text, pos) })
	h := openHistory(historyFile(env), line)
	defer h.close()

	// A Ctrl-C between a command and the next prompt must not end the program. During a command
	// the session catches it, and during a prompt the editor.
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, os.Interrupt)
	defer signal.Stop(unheard)
	return promptLoop(s, recorder{line, h})
}

// A recorder is an editor that writes its history to a file.
//
// Lines go into the file at once, and not when the prompt ends: it may end by a power cut.
type recorder struct {
	*liner.State
	file *history
}

// AppendHistory adds a line to what the arrow keys go through, and to the file.
func (r recorder) AppendHistory(line string) {
	r.State.AppendHistory(line)
	r.file.append(line)
}

// promptLoop runs lines until the user leaves. An error is shown and does not end the prompt; only
// a writer that fails does, since nobody could read on. It opens the store at once, so that the
// first Tab can complete keys.
func promptLoop(s *command.Session, line lineEditor) command.Status {
	if err := s.OpenFor("", command.Reads); err != nil {
		s.Complain(err) // a put may still make the store
	}
	s.Say("help lists the commands, Tab completes, Ctrl-C stops a command, Ctrl-D leaves.")
	aborted := 0 // number of prompts in a row that ended with Ctrl-C
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
			s.Complain(err)
		}
	}
}

// nextLine reads a line. It also returns when the program must end. After that the caller must
// only close line, which restores the mode of the terminal.
//
// The editor can't be interrupted from outside. So it runs on a goroutine, which is left behind
// when SIGTERM comes: the program ends right after.
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
