// Command shale reads and changes a store from a shell:
//
//	shale hosts.db put www.example.org seen    one command
//	shale hosts.db < script                    a script, or -e 'get k'
//	shale hosts.db                             a prompt, on a terminal
//
// All three have the same commands, which come from one table (internal/command). `shale help`
// lists them. The first word names the store, unless it is a command. The option -C names it before or
// after a command, which allows any name, and else the environment variable SHALE_DIR does.
//
// # Words
//
// A command is a line of words with spaces between them. A word is written as one of
//
//	www.example.org       bare: up to the next space, taken as it is
//	"two words\n\x00é"    quoted: with the escapes of Go, any bytes
//	0x6b6579              in hexadecimal: the bytes 6b 65 79
//
// A word is printed bare if possible, and quoted otherwise. So what is printed can be used as
// input again and means the same bytes. A single get is different if its output is a file or a
// pipe: it prints the bytes of the value, for other programs. On a shell's command line each
// argument is one word, which may have spaces without quotes. After the word -- bare words, and all
// arguments of a shell, are taken as they are. A script that has a key or a value in a variable
// writes it there:
//
//	shale hosts.db put -- "$host" "$kind"
//
// A line whose first character is # is a comment, and so is what follows a # between spaces.
//
// # Exit status
//
// The exit status is like that of grep: 0 for found or done, 1 for absent, and 2 for an error.
// Commands that look for damage, such as check, have status 1 if they find some. For others
// damage is an error, so that a script does not take it for an absent key. A script stops at its
// first error with status 2. Without errors its status is the highest of its commands. It is no
// error if a program such as head does not read the output of a single command to the end.
//
// # Signals
//
// Ctrl-C ends a command with status 130; long commands say what they have done by then. SIGTERM
// and SIGHUP do the same, and then end the prompt or the script.
//
// # Opening
//
// Commands that only read open the store read-only. That takes no lock, so the store may be
// open in another program; the command sees the state when it opened the store. A script opens
// the store for writing at its first command that writes. A prompt does so for each command that
// writes, and for a transaction, so another program can write while it waits for a line.
//
// Only put, batch and import create a store, and only once they can read their input.
// The folder must be missing or empty; with --new it may have other files.
//
// The writes of a single command are durable when it ends. The writes of a script are durable
// after a tenth of a second at most, and when the script ends.
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

// main gives package command what belongs to the process: arguments, standard files and the
// terminal. Tests call command.Run with their own.
func main() {
	// If the reader of the output closes it, a write fails, and the store is closed as after any
	// error. Without this, a signal would end the program.
	signal.Ignore(syscall.SIGPIPE)
	_, notTerminal := liner.TerminalMode()
	os.Exit(int(command.Run(command.Environment{
		Args:     os.Args[1:],
		In:       os.Stdin,
		Out:      os.Stdout,
		Err:      os.Stderr,
		Terminal: notTerminal == nil && command.IsCharDevice(os.Stdout),
		ToScreen: command.IsCharDevice(os.Stdout),
		Getenv:   os.Getenv,
		Columns:  func() int { return output.TerminalWidth(os.Stdout) },
		Prompt:   shell.RunPrompt,
	})))
}
