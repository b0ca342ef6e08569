package command

import "context"

// quitCommand ends a script or a prompt.
func quitCommand() *Command {
	c := newCommand("quit", needsNothing, "leave; exit and Ctrl-D do the same", "")
	c.Aliases = []string{"exit", ".quit"}
	return c.does(func(context.Context, *Session, []Word) (Status, error) { return Found, ErrQuit })
}
