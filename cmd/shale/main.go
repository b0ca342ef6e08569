// Command shale looks into a store, and changes it, from a shell:
//
//	shale -C hosts.db put www.example.org seen    one command
//	shale -C hosts.db < script                    a script, or -e 'get k'
//	shale -C hosts.db                             a prompt, on a terminal
//
// One table of commands (internal/command) serves all three, help and completion.
// `shale help` lists them.
//
// # Words
//
// A command is a line of words, with spaces between them. A word is written
//
//	www.example.org       bare: up to the next space, taken as it is
//	"two words\n\x00é"    quoted: with the escapes of Go, any bytes
//	0x6b6579              in hexadecimal: the bytes 6b 65 79
//
//	@FILE                 where a key or a value is expected: the bytes of the file
//
// and printed bare where it can be, else quoted, so that what is printed can
// be pasted back as input and means the same bytes. On a shell's command line
// each argument is one word, which may have bare spaces in it. A line whose
// first character is # is a comment.
//
// # Exit status
//
// As that of grep: 0 found (or done), 1 absent (or damaged), 2 error. A script stops at its
// first error, with status 2; else its status is the highest of its commands. It is
// no error if the output of a single command is not read to its end, as by head.
//
// # Signals
//
// Ctrl-C ends a command, which says how far it has come, with status 2. SIGTERM
// and SIGHUP do the same, and end a prompt and a script after the command.
//
// # Opening
//
// Commands that only read open the store read-only. That takes no lock, so
// they work next to a program that has it open, and show the state of that
// moment. A script is opened for writing when its first writing command comes,
// the prompt at once if nobody else has the store open. Only put, batch, import
// and dedup create a store, once their input is there, in a folder that is missing
// or empty; with --new also in one that has other files in it. What a command wrote is
// durable when it ends; what a script wrote, at most a tenth of a second later,
// and when it ends.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/peterh/liner"

	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/cmd/shale/internal/shell"
)

func main() {
	// A reader of our output that goes away is an error of a write, like any
	// other: the store is closed before the program ends.
	signal.Ignore(syscall.SIGPIPE)
	_, notTerminal := liner.TerminalMode()
	os.Exit(int(command.Run(command.Environment{
		Args:     os.Args[1:],
		In:       os.Stdin,
		Out:      os.Stdout,
		Err:      os.Stderr,
		Terminal: notTerminal == nil && command.IsCharDevice(os.Stdout),
		Getenv:   os.Getenv,
		Columns:  func() int { return output.TerminalWidth(os.Stdout) },
		More:     shell.Commands(),
		Prompt:   shell.RunPrompt,
	})))
}
