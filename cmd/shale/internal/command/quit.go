package command

import "context"

func quitCommand() *Command { return NewQuit("quit", "leave; Ctrl-D does the same") }
func exitCommand() *Command { return NewQuit("exit", "the same as quit") }

// NewQuit returns a command that ends a script or a prompt.
func NewQuit(name, short string) *Command {
	return New(name, NeedsNothing, short, "").Does(func(context.Context, *Session, []Word) (Status, error) { return Found, ErrQuit })
}
