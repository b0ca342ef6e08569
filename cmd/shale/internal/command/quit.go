package command

import "context"

// quitCommand ends a script or a prompt.
func quitCommand() *Command {
	c := New("quit", NeedsNothing, "leave; exit and Ctrl-D do the same", "")
	c.Aliases = []string{"exit", ".quit"}
	return c.Does(func(context.Context, *Session, []Word) (Status, error) { return Found, ErrQuit })
}
